"""Figure 4: the slowdown of slow times."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.claims import Claim, Declaration
from benchmarks.figures.experiment import Experiment, Sample, Series
from benchmarks.figures.judging import CLEARLY, is_better
from benchmarks.figures.slow_periods import Slowdown
from benchmarks.figures.table_2 import JOBS, LENGTHS, PARAMETERS, create_tables, scale_tables
from tidemill.sim.staleness.workload import SimulationConfig

FACTORS = (2, 3, 5, 9)


def _format_factor(factor: int) -> str:
    return f"S = {factor}"


def _create_slowdown(factor: int, normal: float) -> Slowdown:
    """Slower slow times are shorter in relation to normal times; with S = 2 there are no normal times."""
    return Slowdown(float(factor), normal / (factor - 2) if factor > 2 else normal)


def _is_slowdown_relevant(sample: Sample) -> bool:
    return is_better(sample.mean[_format_factor(FACTORS[0])], sample.mean[_format_factor(FACTORS[-1])], by=CLEARLY)


def _is_monotonic(sample: Sample) -> bool:
    return not any(
        is_better(sample.mean[_format_factor(b)], sample.mean[_format_factor(a)]) for a, b in pairwise(FACTORS)
    )


FIGURE_4 = Experiment(
    4,
    "Slow times",
    "load",
    (0.5, 0.6, 0.7, 0.8, 0.9),
    {
        name: {
            _format_factor(s): Series(
                scale_tables(create_tables(JOBS, "t"), _create_slowdown(s, length)), SimulationConfig()
            )
            for s in FACTORS
        }
        for name, length in LENGTHS.items()
    },
    Declaration(
        {
            **PARAMETERS,
            "slow times": "S = 2, 3, 5 and 9 (not given); runs take twice the normal time on average (4.1), so slow "
            "times last 1 / (S - 2) of normal ones, whose length is not given: 5, 20 and 100 periods, each declared",
        },
        (
            Claim(
                "4.1",
                "at the same average load, the slowdown of slow times has a large effect on lateness",
                "averaged over loads, S = 2 adds clearly less lateness than S = 9",
                _is_slowdown_relevant,
            ),
            Claim(
                "4.1",
                "tables are later with slower slow times",
                "averaged over loads, no S adds less lateness than the next smaller one, beyond noise",
                _is_monotonic,
                fails_in=tuple(LENGTHS),
                finding="slow times that are slower are shorter, so that less work is delayed in each: from 80 % load "
                "on S = 3 is later than S = 9, for every length. With slow times of equal length for every S, the "
                "mean over loads would grow with S",
            ),
        ),
    ),
)
