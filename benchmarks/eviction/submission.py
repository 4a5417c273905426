"""Submitted workflows of synthetic histories, with times and sizes of their datasets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, log
from random import Random

from tidemill.model.identity import Identity
from tidemill.retention.eviction.history import ProducedDataset

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Submission:
    """A graph, parents before children, and the series of submissions that it belongs to."""

    series: str
    graph: tuple[ProducedDataset, ...]

    def find_sinks(self) -> frozenset[Identity]:
        inner = {p for dataset in self.graph for p in dataset.parents}
        return frozenset(d.identity for d in self.graph) - inner


@dataclass(slots=True)
class DatasetFactory:
    """Creates datasets, each identity once. Times and sizes vary around the typical ones of the kind."""

    random: Random
    typical: dict[str, tuple[float, float]]  # by kind: seconds, megabytes
    spread: float = 0.7  # of their logarithms
    _datasets: dict[Identity, ProducedDataset] = field(default_factory=dict)

    def create_dataset(self, kind: str, name: object, parents: Sequence[ProducedDataset] = ()) -> ProducedDataset:
        identity = _format_identity(f"{kind} {name}", [p.identity for p in parents])
        if identity not in self._datasets:
            seconds, size = (self._draw_near(typical) for typical in self.typical[kind])
            parent_ids = tuple(p.identity for p in parents)
            self._datasets[identity] = ProducedDataset(
                identity, parent_ids, kind, seconds, max(1, int(size * MEGABYTE))
            )
        return self._datasets[identity]

    def _draw_near(self, typical: float) -> float:
        return exp(self.random.gauss(log(typical), self.spread))

    def create_submission(self, series: str, ends: Iterable[ProducedDataset]) -> Submission:
        """A submission of some datasets and all their ancestors."""
        members: dict[Identity, ProducedDataset] = {}
        for end in ends:
            self._collect(end, members)
        return Submission(series, tuple(members.values()))

    def _collect(self, dataset: ProducedDataset, members: dict[Identity, ProducedDataset]) -> None:
        """Collect a dataset and its ancestors, iteratively, since chains can be deeper than Python's stack."""
        stack = [dataset]
        while stack:
            current = stack[-1]
            missing = [p for p in current.parents if p not in members]
            if current.identity in members or not missing:
                members.setdefault(current.identity, stack.pop())
            else:
                stack += [self._datasets[p] for p in missing]


def _format_identity(name: str, parents: Sequence[str]) -> str:
    text = f"{name}({', '.join(parents)})"
    return text if len(text) < 80 else f"{name} #{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def zipf(random: Random, count: int, skew: float = 1.0) -> int:
    """A number below `count`, small ones more often."""
    return random.choices(range(count), weights=[1 / (n + 1) ** skew for n in range(count)])[0]
