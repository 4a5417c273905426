"""Experiments: curves over a range of loads, measured in every declared set-up, and claims about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from benchmarks.claims import Declaration, Judgement
from tidemill.errors import InfeasibleSchedule
from tidemill.sim.staleness.run import simulate_uncontended, simulate_workload
from tidemill.sim.staleness.workload import SimulationConfig, Workload

Curve = Mapping[float, float]
"""Relative lateness by the varied parameter."""

Curves = Mapping[str, Curve]

EVENTS, SEEDS = 100_000, 3
"""The declared numbers of events and seeds, by which claims are decided."""


@dataclass(frozen=True, slots=True)
class Series:
    """Workload and configuration of one curve."""

    workload: Callable[[float], Workload]
    config: SimulationConfig


@dataclass(frozen=True, slots=True)
class Sample:
    """The curves of one set-up: the mean over seeds, and those of each seed."""

    mean: Curves = field(hash=False)
    seeds: tuple[Curves, ...] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure of the paper."""

    figure: int
    title: str
    axis: str
    values: tuple[float, ...]
    setups: Mapping[str, Mapping[str, Series]] = field(hash=False)  # curves, by set-up
    declaration: Declaration[Sample]


@dataclass(frozen=True, slots=True)
class Result:
    """The measured curves. A curve has no point where its placement does not fit the jobs on the tracks."""

    experiment: Experiment
    samples: Mapping[str, Sample] = field(hash=False)
    events: int
    seeds: int

    @property
    def judgement(self) -> Judgement:
        return self.experiment.declaration.judge(self.samples)

    @property
    def as_declared(self) -> bool:
        """Whether the numbers of events and seeds are the declared ones."""
        return (self.events, self.seeds) == (EVENTS, SEEDS)

    def to_json(self) -> dict[str, Any]:
        points = [
            {"setup": setup, "series": name, "x": x, "lateness": lateness, "by_seed": _list_by_seed(sample, name, x)}
            for setup, sample in self.samples.items()
            for name, curve in sample.mean.items()
            for x, lateness in curve.items()
        ]
        return {
            "figure": self.experiment.figure, "title": self.experiment.title, "x": self.experiment.axis,
            "points": points, "events": self.events, "seeds": self.seeds, "as_declared": self.as_declared,
            **self.judgement.to_json(),
        }  # fmt: skip


def _list_by_seed(sample: Sample, name: str, x: float) -> list[float]:
    return [curves[name][x] for curves in sample.seeds]


def measure_experiment(
    experiment: Experiment, events: int = EVENTS, seeds: Sequence[int] = range(1, SEEDS + 1)
) -> Result:
    """Measure every point of every curve in every set-up."""
    lateness = Lateness(events)
    samples = {
        name: _measure_sample(experiment.values, series, seeds, lateness) for name, series in experiment.setups.items()
    }
    return Result(experiment, samples, events, len(seeds))


def _measure_sample(
    values: Iterable[float], series: Mapping[str, Series], seeds: Sequence[int], lateness: Lateness
) -> Sample:
    by_seed = [
        {name: dict(_measure_points(values, curve, seed, lateness)) for name, curve in series.items()} for seed in seeds
    ]  # fmt: skip
    return average_curves(by_seed)


def average_curves(by_seed: Sequence[Curves]) -> Sample:
    """Curves of several seeds, and their mean."""
    mean = {
        name: {x: fmean(curves[name][x] for curves in by_seed) for x in curve} for name, curve in by_seed[0].items()
    }
    return Sample(mean, tuple(by_seed))


class Lateness:
    """Weighted staleness as a multiple of that with a track for every table."""

    def __init__(self, events: int) -> None:
        self._events = events
        self._best: dict[tuple[Workload, int], float] = {}

    def __call__(self, workload: Workload, config: SimulationConfig, seed: int) -> float:
        key = workload, seed
        if key not in self._best:
            self._best[key] = simulate_uncontended(workload, self._events, seed).staleness
        return simulate_workload(workload, config, self._events, seed).staleness / self._best[key]


def _measure_points(
    values: Iterable[float], series: Series, seed: int, lateness: Lateness
) -> Iterable[tuple[float, float]]:
    for value in values:
        try:
            yield value, lateness(series.workload(value), series.config, seed)
        except InfeasibleSchedule:
            continue
