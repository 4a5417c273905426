"""Flows: reusable fragments of tasks with open ports. Bound to channels, a flow becomes runnable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidemill.model.identity import Identity, compute_identity
from tidemill.model.location import UNKNOWN, SourceLocation
from tidemill.model.task import Task
from tidemill.model.trigger import Trigger


@dataclass(frozen=True, slots=True)
class NestedFlow:
    """A flow used inside another: the inner ports on the left, the outer ones they become on the right."""

    name: str
    flow: FlowSpec
    ports: Mapping[str, str] = field(default_factory=dict)
    location: SourceLocation = UNKNOWN


@dataclass(frozen=True, slots=True)
class FlowSpec:
    """Tasks and nested flows. Its ports are the names its tasks read and write."""

    name: str
    parts: tuple[Task | NestedFlow, ...] = ()
    location: SourceLocation = UNKNOWN

    @property
    def ports(self) -> frozenset[str]:
        return frozenset(p for t in self.list_tasks() for p in list_ports(t))

    def list_tasks(self) -> Iterator[Task]:
        """All tasks, those of nested flows under the names the ports have here."""
        for part in self.parts:
            if isinstance(part, Task):
                yield part
            else:
                yield from (t.rebind_ports(f"{part.name}.{t.name}", part.ports) for t in part.flow.list_tasks())

    def list_nested_flows(self) -> Iterator[NestedFlow]:
        for part in self.parts:
            if isinstance(part, NestedFlow):
                yield part
                yield from part.flow.list_nested_flows()


def list_ports(task: Task) -> Iterator[str]:
    yield from (r.port for r in task.reads)
    yield from (w.port for w in task.writes)


@dataclass(frozen=True, slots=True)
class BoundFlow:
    """A flow bound to channels: the unit that runs. Its tasks name channels, in an order in which they can run.

    Any of its triggers makes it run. They and its priority say when, not what, and so are no part of its identity.
    """

    name: str
    tasks: tuple[Task, ...]
    location: SourceLocation = UNKNOWN
    triggers: tuple[Trigger, ...] = ()
    priority: float = 1.0  # how much the staleness of what it writes counts

    def compute_identity(self) -> Identity:
        signatures = [
            (t.name, t.compute_identity(), [(r.port, r.mode) for r in t.reads], [(w.port, w.kind) for w in t.writes])
            for t in self.tasks
        ]
        return compute_identity("binding", self.name, signatures)

    @property
    def written_channels(self) -> frozenset[str]:
        return frozenset(w.port for t in self.tasks for w in t.writes)

    @property
    def read_channels(self) -> frozenset[str]:
        return frozenset(r.port for t in self.tasks for r in t.reads)

    @property
    def intermediate_channels(self) -> frozenset[str]:
        """Channels that one task of this binding writes and another reads in the same run."""
        return frozenset(
            r.port
            for t in self.tasks
            for r in t.reads
            if r.port in self.written_channels and r.port not in t.state_ports
        )
