"""Flows: reusable fragments of tasks with open ports. Bound to channels, a flow becomes runnable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidemill.model.identity import Identity, identity
from tidemill.model.location import UNKNOWN, Location
from tidemill.model.task import Task
from tidemill.model.trigger import Trigger


@dataclass(frozen=True, slots=True)
class Use:
    """A flow used inside another: the inner ports on the left, the outer ones they become on the right."""

    name: str
    flow: Flow
    ports: Mapping[str, str] = field(default_factory=dict)
    location: Location = UNKNOWN


@dataclass(frozen=True, slots=True)
class Flow:
    """Tasks and nested flows. Its ports are the names its tasks read and write."""

    name: str
    parts: tuple[Task | Use, ...] = ()
    location: Location = UNKNOWN

    @property
    def ports(self) -> frozenset[str]:
        return frozenset(p for t in self.tasks() for p in ports_of(t))

    def tasks(self) -> Iterator[Task]:
        """All tasks, those of nested flows under the names the ports have here."""
        for part in self.parts:
            if isinstance(part, Task):
                yield part
            else:
                yield from (t.rebound(f"{part.name}.{t.name}", part.ports) for t in part.flow.tasks())

    def uses(self) -> Iterator[Use]:
        for part in self.parts:
            if isinstance(part, Use):
                yield part
                yield from part.flow.uses()


def ports_of(task: Task) -> Iterator[str]:
    yield from (r.port for r in task.reads)
    yield from (w.port for w in task.writes)


@dataclass(frozen=True, slots=True)
class Binding:
    """A flow bound to channels: the unit that runs. Its tasks name channels, in an order in which they can run.

    Any of its triggers makes it run. They and its priority say when, not what, and so are no part of its identity.
    """

    name: str
    tasks: tuple[Task, ...]
    location: Location = UNKNOWN
    triggers: tuple[Trigger, ...] = ()
    priority: float = 1.0  # how much the staleness of what it writes counts

    def identity(self) -> Identity:
        signatures = [
            (t.name, t.identity(), [(r.port, r.mode) for r in t.reads], [(w.port, w.kind) for w in t.writes])
            for t in self.tasks
        ]
        return identity("binding", self.name, signatures)

    @property
    def written(self) -> frozenset[str]:
        return frozenset(w.port for t in self.tasks for w in t.writes)

    @property
    def read(self) -> frozenset[str]:
        return frozenset(r.port for t in self.tasks for r in t.reads)

    @property
    def read_through(self) -> frozenset[str]:
        """Channels that one task of this binding writes and another reads in the same run."""
        return frozenset(
            r.port for t in self.tasks for r in t.reads if r.port in self.written and r.port not in t.states
        )
