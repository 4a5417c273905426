"""Figure 10: three kinds of proportional tracks."""

from __future__ import annotations

from benchmarks.claims import Claim, Declaration
from benchmarks.figures.experiment import Experiment, Sample
from benchmarks.figures.heterogeneous import HETEROGENEOUS, LOADS, LOW, TABLES
from benchmarks.figures.judging import CLEARLY, is_better, is_nowhere_later
from benchmarks.figures.table_2 import create_setups
from tidemill.sim.staleness.workload import SimulationConfig

BASIC, ALL, AGGRESSIVE = "basic", "all tracks", "all tracks, aggressive"


def _is_all_better_at_low_load(sample: Sample) -> bool:
    return is_better(sample.mean[ALL], sample.mean[BASIC], LOW, by=CLEARLY)


def _is_aggressive_nowhere_later(sample: Sample) -> bool:
    return all(is_nowhere_later(sample.mean[AGGRESSIVE], sample.mean[name]) for name in (BASIC, ALL))


def _is_aggressive_best(sample: Sample) -> bool:
    return all(is_better(sample.mean[AGGRESSIVE], sample.mean[name]) for name in (BASIC, ALL))


FIGURE_10 = Experiment(
    10,
    "Kinds of proportional tracks",
    "load",
    LOADS,
    create_setups(
        TABLES,
        {
            BASIC: SimulationConfig(placement="proportional-basic"),
            ALL: SimulationConfig(placement="proportional-all"),
            AGGRESSIVE: SimulationConfig(placement="proportional"),
        },
    ),
    Declaration(
        HETEROGENEOUS,
        (
            Claim(
                "4.6",
                "sharing out all tracks is much better at lower loads",
                "averaged over the lower half of the loads, all tracks add clearly less lateness than basic ones",
                _is_all_better_at_low_load,
            ),
            Claim(
                "4.6",
                "with aggressive guests on all tracks, lateness is low at all loads",
                "they are nowhere later than either of the others",
                _is_aggressive_nowhere_later,
                fails_in=("100 periods",),
                finding="with slow times of 100 periods they add 9 % more than the others at 95 % load, less or the "
                "same at every other",
            ),
            Claim(
                "4.8",
                "aggressive guests on all tracks are the best of the three",
                "averaged over loads, they add less lateness than each of the others, beyond noise",
                _is_aggressive_best,
            ),
        ),
    ),
)
