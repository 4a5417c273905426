"""Flows: reusable groups of tasks with open ports. A flow that is bound to channels can run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidemill.model.identity import Identity, compute_identity
from tidemill.model.location import UNKNOWN_LOCATION, SourceLocation
from tidemill.model.task import Task
from tidemill.model.trigger import Trigger


@dataclass(frozen=True, slots=True)
class NestedFlow:
    """A flow used inside another; `ports` maps its ports to those of the outer flow."""

    name: str
    flow: FlowSpec
    ports: Mapping[str, str] = field(default_factory=dict)
    location: SourceLocation = UNKNOWN_LOCATION


@dataclass(frozen=True, slots=True)
class FlowSpec:
    """Tasks and nested flows. The flow's ports are the names that its tasks read and write."""

    name: str
    parts: tuple[Task | NestedFlow, ...] = ()
    location: SourceLocation = UNKNOWN_LOCATION

    @property
    def ports(self) -> frozenset[str]:
        tasks = list(self.list_tasks())
        return frozenset({r.port for t in tasks for r in t.reads} | {w.port for t in tasks for w in t.writes})

    def list_tasks(self) -> Iterator[Task]:
        """All tasks; those of nested flows with the port names of this flow."""
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


@dataclass(frozen=True, slots=True)
class BoundFlow:
    """A flow bound to channels: the unit of execution. Its tasks name channels and are in topological order.

    Any of its triggers makes it run. Triggers and priority decide when it runs, so they are not part of its identity.
    """

    name: str
    tasks: tuple[Task, ...]
    location: SourceLocation = UNKNOWN_LOCATION
    triggers: tuple[Trigger, ...] = ()
    priority: float = 1.0  # weight of the staleness of the channels that it writes

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
