"""Figure 5: Max Benefit or prioritised EDF, for tables half of which take ten times as long for the same data."""

from __future__ import annotations

from benchmarks.claims import Claim, Declaration
from benchmarks.figures.experiment import Experiment, Sample
from benchmarks.figures.judging import compare, find_shared_points
from benchmarks.figures.table_2 import JOBS, LENGTHS, PARAMETERS, create_setups, create_tables
from tidemill.sim.staleness.workload import SimulationConfig

BENEFIT, DEADLINE = "Max Benefit", "prioritised EDF"


def _is_edf_better_at_onset(sample: Sample) -> bool:
    benefit, deadline = sample.mean[BENEFIT], sample.mean[DEADLINE]
    differing = [sign for x in find_shared_points(benefit, deadline) if (sign := compare(deadline, benefit, x))]
    return bool(differing) and differing[0] < 0


def _is_benefit_better_in_overload(sample: Sample) -> bool:
    return all(compare(sample.mean[BENEFIT], sample.mean[DEADLINE], x) < 0 for x in (0.9, 1.0, 1.1))


FIGURE_5 = Experiment(
    5,
    "Max Benefit or prioritised EDF",
    "load",
    (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0, 1.1),
    create_setups(
        [*create_tables(JOBS // 2, "slow"), *create_tables(JOBS // 2, "quick", rate=0.01)],
        {BENEFIT: SimulationConfig("max-benefit"), DEADLINE: SimulationConfig("edf-priority")},
    ),
    Declaration(
        {**PARAMETERS, "tables": "15 with a rate of 0.1, 15 with 0.01 (4.2); otherwise as in table 2"},
        (
            Claim(
                "4.2",
                "where lateness begins to rise, prioritised EDF is better than Max Benefit",
                "at the first load at which the two differ, prioritised EDF is less late",
                _is_edf_better_at_onset,
                fails_in=tuple(LENGTHS),
                finding="Max Benefit is the less late one from the first load at which they differ, 65 or 70 %. "
                "Prioritised EDF is better at 75 and 80 % load if slow times last for 100 periods, and nowhere else",
            ),
            Claim(
                "4.2",
                "at higher loads Max Benefit is the better one",
                "Max Benefit is less late at 90, 100 and 110 % load",
                _is_benefit_better_in_overload,
            ),
        ),
    ),
)
