"""A submitted workflow of a synthetic history, and how its datasets get their times and sizes."""

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
    """A graph, parents before children, and the series in which it follows earlier ones."""

    series: str
    graph: tuple[ProducedDataset, ...]

    def sinks(self) -> frozenset[Identity]:
        inner = {p for made in self.graph for p in made.parents}
        return frozenset(m.identity for m in self.graph) - inner


@dataclass(slots=True)
class Workshop:
    """Makes datasets: what is asked for twice is the same. Times and sizes vary around what is usual for the kind."""

    random: Random
    usual: dict[str, tuple[float, float]]  # by kind: seconds, megabytes
    spread: float = 0.7  # of their logarithms
    _made: dict[Identity, ProducedDataset] = field(default_factory=dict)

    def make(self, kind: str, name: object, parents: Sequence[ProducedDataset] = ()) -> ProducedDataset:
        identity = _short(f"{kind} {name}", [p.identity for p in parents])
        if identity not in self._made:
            seconds, size = (self._around(usual) for usual in self.usual[kind])
            whence = tuple(p.identity for p in parents)
            self._made[identity] = ProducedDataset(identity, whence, kind, seconds, max(1, int(size * MEGABYTE)))
        return self._made[identity]

    def _around(self, usual: float) -> float:
        return exp(self.random.gauss(log(usual), self.spread))

    def submission(self, series: str, ends: Iterable[ProducedDataset]) -> Submission:
        """A graph of all that leads to some datasets."""
        members: dict[Identity, ProducedDataset] = {}
        for end in ends:
            self._collect(end, members)
        return Submission(series, tuple(members.values()))

    def _collect(self, made: ProducedDataset, members: dict[Identity, ProducedDataset]) -> None:
        """Iteratively, since chains can be longer than Python's stack is deep."""
        ahead = [made]
        while ahead:
            at = ahead[-1]
            missing = [p for p in at.parents if p not in members]
            if at.identity in members or not missing:
                members.setdefault(at.identity, ahead.pop())
            else:
                ahead += [self._made[p] for p in missing]


def _short(name: str, parents: Sequence[str]) -> str:
    text = f"{name}({', '.join(parents)})"
    return text if len(text) < 80 else f"{name} #{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def zipf(random: Random, count: int, skew: float = 1.0) -> int:
    """A number below `count`, small ones more often."""
    return random.choices(range(count), weights=[1 / (n + 1) ** skew for n in range(count)])[0]
