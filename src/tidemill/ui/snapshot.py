"""What the pages show of the whole project, read at one look."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tidemill.model.channel import Role
from tidemill.model.run import Run
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import RegisteredTrigger, RegisteredWorkflow
from tidemill.runtime.inspect.status import ChannelStatus, Consumer, FlowStatus, Status, status, without_states

RUNS = 200
"""Newest runs that are looked at for the strip."""


@dataclass(frozen=True)  # without slots: what is asked for again and again is worked out once
class Snapshot:
    """The project as the catalog described it; what of it is late depends on when one asks, and is not said here."""

    status: Status
    triggers: tuple[RegisteredTrigger, ...] = ()
    workflows: tuple[RegisteredWorkflow, ...] = ()
    runs: tuple[Run, ...] = ()  # the newest first

    @property
    def empty(self) -> bool:
        return not self.status.channels and not self.status.flows

    def shown(self, *, states: bool) -> Status:
        return self.status if states else without_states(self.status)

    def channel(self, name: str) -> ChannelStatus | None:
        return self._channels.get(name)

    def flow(self, name: str) -> FlowStatus | None:
        return self._flows.get(name)

    def writers(self, channel: str) -> Sequence[FlowStatus]:
        """The bound flows with a task that writes a channel."""
        return self._writers.get(channel, ())

    def unread(self, flow: str) -> Mapping[str, int]:
        """By channel, the blocks that wait for a flow: for whichever of its tasks is furthest behind."""
        return self._unread.get(flow, {})

    def triggers_of(self, flow: str) -> list[RegisteredTrigger]:
        return self._triggers.get(flow, [])

    def inputs(self) -> list[str]:
        return [name for name, c in self._channels.items() if c.registered.channel.role is Role.INPUT]

    @cached_property
    def paused(self) -> frozenset[str]:
        """The workflows that are."""
        return frozenset(w.name for w in self.workflows if w.paused)

    @cached_property
    def behind(self) -> frozenset[Consumer]:
        """Everybody for whom blocks wait. Of its own state a task has always seen everything: it wrote it."""
        own = {(f.name, t.name, c) for f in self.status.flows for t in f.tasks for c, _ in t.writes}
        everybody = (c for channel in self.status.channels for c in channel.consumers)
        return frozenset(c for c in everybody if c.behind and (c.flow, c.task, c.channel) not in own)

    @cached_property
    def _channels(self) -> dict[str, ChannelStatus]:
        return {c.registered.channel.name: c for c in self.status.channels}

    @cached_property
    def _flows(self) -> dict[str, FlowStatus]:
        return {f.name: f for f in self.status.flows}

    @cached_property
    def _writers(self) -> dict[str, list[FlowStatus]]:
        found: dict[str, list[FlowStatus]] = defaultdict(list)
        for flow in self.status.flows:
            for channel in dict.fromkeys(c for t in flow.tasks for c, _ in t.writes):
                found[channel].append(flow)
        return dict(found)

    @cached_property
    def _unread(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for consumer in sorted(self.behind, key=lambda c: (c.channel, c.behind)):
            found[consumer.flow][consumer.channel] = consumer.behind
        return dict(found)

    @cached_property
    def _triggers(self) -> dict[str, list[RegisteredTrigger]]:
        found: dict[str, list[RegisteredTrigger]] = defaultdict(list)
        for trigger in self.triggers:
            found[trigger.flow].append(trigger)
        return dict(found)


def take(catalog: CatalogReader) -> Snapshot:
    return Snapshot(
        status(catalog),
        tuple(catalog.triggers()),
        tuple(catalog.workflows()),
        tuple(catalog.runs(limit=RUNS)),
    )
