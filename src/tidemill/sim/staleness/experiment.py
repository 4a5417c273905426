"""An experiment: curves over a range, and a conclusion that they bear out or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tidemill.errors import Infeasible
from tidemill.sim.staleness.run import simulated, uncontended
from tidemill.sim.staleness.workload import Way, Workload

Curve = Mapping[float, float]
"""Relative lateness, by what is varied."""

Curves = Mapping[str, Curve]


@dataclass(frozen=True, slots=True)
class Series:
    """What one curve shows."""

    workload: Callable[[float], Workload]
    way: Way


@dataclass(frozen=True, slots=True)
class Check:
    """Part of a conclusion."""

    says: str
    holds: Callable[[Curves], bool]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure of the paper."""

    figure: int
    title: str
    axis: str
    values: tuple[float, ...]
    series: Mapping[str, Series]
    checks: tuple[Check, ...]

    @property
    def conclusion(self) -> str:
        return "; ".join(check.says for check in self.checks)


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured. A curve has no point where its placement does not fit the jobs on the tracks."""

    experiment: Experiment
    curves: Curves
    events: int
    seeds: int

    @property
    def doubts(self) -> list[str]:
        return [check.says for check in self.experiment.checks if not check.holds(self.curves)]

    @property
    def holds(self) -> bool:
        return not self.doubts

    def to_json(self) -> dict[str, Any]:
        points = [
            {"series": name, "x": x, "lateness": lateness}
            for name, curve in self.curves.items()
            for x, lateness in curve.items()
        ]
        return {
            "figure": self.experiment.figure, "title": self.experiment.title, "x": self.experiment.axis,
            "points": points, "conclusion": self.experiment.conclusion, "holds": self.holds, "doubts": self.doubts,
            "events": self.events, "seeds": self.seeds,
        }  # fmt: skip


def measured(experiment: Experiment, events: int, seeds: Sequence[int] = (1,)) -> Result:
    """Every point of every curve, the mean over seeds."""
    lateness = Lateness(events)
    curves = {
        name: dict(_points(experiment.values, series, seeds, lateness)) for name, series in experiment.series.items()
    }
    return Result(experiment, curves, events, len(seeds))


class Lateness:
    """Weighted staleness in multiples of what it would be if there were a track for everybody."""

    def __init__(self, events: int) -> None:
        self._events = events
        self._best: dict[tuple[Workload, int], float] = {}

    def __call__(self, workload: Workload, way: Way, seed: int) -> float:
        key = workload, seed
        if key not in self._best:
            self._best[key] = uncontended(workload, self._events, seed).staleness
        return simulated(workload, way, self._events, seed).staleness / self._best[key]


def _points(
    values: Iterable[float], series: Series, seeds: Sequence[int], lateness: Lateness
) -> Iterable[tuple[float, float]]:
    for value in values:
        workload = series.workload(value)
        try:
            yield value, fmean(lateness(workload, series.way, seed) for seed in seeds)
        except Infeasible:
            continue
