"""Figure 11: a catch-up limit of three periods for updates after slow times; chains of two tables."""

from __future__ import annotations

from benchmarks.claims import Claim, Declaration
from benchmarks.figures.experiment import Experiment, Sample, Series
from benchmarks.figures.judging import is_better, is_nowhere_later
from benchmarks.figures.table_2 import JOBS, LENGTHS, PARAMETERS, create_setups, create_table
from tidemill.scheduler.hierarchy import PriorityInheritance
from tidemill.scheduler.job import JobProfile
from tidemill.sim.staleness.workload import SimulationConfig

UNLIMITED, LIMITED = "unlimited", "limited"
PERIODS = 3.0
INHERITANCES = (PriorityInheritance.NONE, PriorityInheritance.MAX)
NONE, MAX = (inheritance.value for inheritance in INHERITANCES)


def _create_pairs() -> list[JobProfile]:
    return [t for i in range(JOBS // 2) for t in (create_table(f"a{i:02}"), create_table(f"b{i:02}", 10.0, f"a{i:02}"))]


def _create_inheritance_setups() -> dict[str, dict[str, Series]]:
    return {
        f"{length}, inheritance {inheritance.value}": series
        for inheritance in INHERITANCES
        for length, series in create_setups(
            _create_pairs(),
            {
                UNLIMITED: SimulationConfig(inheritance=inheritance),
                LIMITED: SimulationConfig(inheritance=inheritance, catch_up_periods=PERIODS),
            },
        ).items()
    }


def _is_limit_better(sample: Sample) -> bool:
    return is_better(sample.mean[LIMITED], sample.mean[UNLIMITED])


def _is_limit_nowhere_later(sample: Sample) -> bool:
    return is_nowhere_later(sample.mean[LIMITED], sample.mean[UNLIMITED])


FIGURE_11 = Experiment(
    11,
    "Catch-up limit",
    "load",
    (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0),
    _create_inheritance_setups(),
    Declaration(
        {
            **PARAMETERS,
            "tables": "30 in chains of two, with priorities of 1 and 10 (4.7); otherwise as in table 2",
            "catch-up limit": "at most three periods of data per run (4.7)",
            "inheritance": "not given: none, and max, the best in 4.5 and the default of servers, each declared",
        },
        (
            Claim(
                "4.7",
                "after overload, a catch-up limit makes tables less late",
                "averaged over loads, limited updates add less lateness than unlimited ones, beyond noise",
                _is_limit_better,
                fails_in=(f"5 periods, inheritance {NONE}", *(f"{length}, inheritance {MAX}" for length in LENGTHS)),
                finding="without inheritance, limited updates add 6 and 9 % less with slow times of 20 and 100 "
                "periods; in those of 5 hardly any update is delayed for three periods. With max both tables of a "
                "chain have the same weight: no update of little weight can be limited in favour of another, and no "
                "difference beyond noise",
            ),
            Claim(
                "4.7",
                "it is effective: at no load does it make tables later",
                "limited updates are nowhere later than unlimited ones",
                _is_limit_nowhere_later,
                fails_in=(f"100 periods, inheritance {MAX}",),
                finding="with max, limited updates are 7 % later at 85 % load: more starts cost time, with little gain",
            ),
        ),
    ),
)
