"""Estimates the staleness of a user's tables by the number of tracks."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean

from tidemill.errors import InfeasibleSchedule
from tidemill.sim.staleness.run import SimulationOutcome, simulate_uncontended, simulate_workload
from tidemill.sim.staleness.workload_file import WorkloadFile


@dataclass(frozen=True, slots=True)
class TableSizing:
    """The average staleness of a table, the best possible one, and the average number of its runs."""

    table: str
    staleness: float
    best: float
    runs: float


@dataclass(frozen=True, slots=True)
class TrackSizing:
    """The simulated outcomes, the best possible ones, and the lateness by the number of tracks."""

    workload_file: WorkloadFile
    outcomes: Sequence[SimulationOutcome]  # one for each seed
    best: Sequence[SimulationOutcome]
    lateness: Mapping[int, float]  # by tracks; missing where the placement is infeasible

    @property
    def busy_share(self) -> float:
        return fmean(outcome.busy for outcome in self.outcomes)

    @property
    def tables(self) -> list[TableSizing]:
        return [
            TableSizing(
                table.name,
                fmean(outcome.tables[table.name] for outcome in self.outcomes),
                fmean(outcome.tables[table.name] for outcome in self.best),
                fmean(outcome.runs[table.name] for outcome in self.outcomes),
            )
            for table in self.workload_file.workload.tables
        ]


def size_tracks(request: WorkloadFile, events: int, seeds: Sequence[int] = (1,)) -> TrackSizing:
    best = [simulate_uncontended(request.workload, events, seed) for seed in seeds]
    outcomes = _simulate_tracks(request, request.workload.tracks, events, seeds)
    lateness = {request.workload.tracks: _compute_lateness(outcomes, best)}
    used = request.workload.tracks
    for tracks in {n for n in (used // 2, used - 1, used + 1, 2 * used) if n >= 1} - {used}:
        with suppress(InfeasibleSchedule):
            lateness[tracks] = _compute_lateness(_simulate_tracks(request, tracks, events, seeds), best)
    return TrackSizing(request, outcomes, best, dict(sorted(lateness.items())))


def _simulate_tracks(request: WorkloadFile, tracks: int, events: int, seeds: Sequence[int]) -> list[SimulationOutcome]:
    workload = replace(request.workload, tracks=tracks)
    return [simulate_workload(workload, request.config, events, seed) for seed in seeds]


def _compute_lateness(outcomes: Sequence[SimulationOutcome], best: Sequence[SimulationOutcome]) -> float:
    return fmean(outcome.staleness / optimum.staleness for outcome, optimum in zip(outcomes, best, strict=True))
