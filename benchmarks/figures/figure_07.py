"""Figure 7: half of the tables have ten times the priority."""

from __future__ import annotations

from benchmarks.claims import Claim, Declaration
from benchmarks.figures.experiment import Experiment, Sample
from benchmarks.figures.judging import CLEARLY, is_better
from benchmarks.figures.table_2 import JOBS, LOADS, PARAMETERS, create_setups, create_tables
from tidemill.sim.staleness.workload import SimulationConfig

BENEFIT, EDF, RANDOM = "Max Benefit", "EDF", "random"


def _is_benefit_better(sample: Sample) -> bool:
    curves = sample.mean
    return all(is_better(curves[BENEFIT], curves[name], by=CLEARLY) for name in (EDF, RANDOM))


FIGURE_7 = Experiment(
    7,
    "Two classes of priority",
    "load",
    LOADS,
    create_setups(
        [*create_tables(JOBS // 2, "low", 1.0), *create_tables(JOBS // 2, "high", 10.0)],
        {BENEFIT: SimulationConfig("max-benefit"), EDF: SimulationConfig("edf"), RANDOM: SimulationConfig("random")},
    ),
    Declaration(
        {
            **PARAMETERS,
            "tables": "15 with a priority of 1, 15 with 10 (4.4); otherwise as in table 2",
            "dispatching": "Max Benefit, which uses priorities, EDF and random, which do not, on one queue",
        },
        (
            Claim(
                "4.4",
                "an algorithm that uses priorities leads to far less lateness than those that do not",
                "averaged over loads, Max Benefit adds clearly less lateness than EDF and than random",
                _is_benefit_better,
            ),
        ),
    ),
)
