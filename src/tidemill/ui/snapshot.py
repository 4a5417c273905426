"""The project's state for the pages, read from the catalog at once."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tidemill.model.run import Run, RunKind
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import RegisteredTrigger, RegisteredWorkflow
from tidemill.runtime.inspect.status import ChannelConsumer, ChannelStatus, FlowStatus, ProjectStatus, read_status

RUNS = 200
"""The number of newest runs that are read for the strip."""


@dataclass(frozen=True)  # without slots, because of cached properties
class ProjectSnapshot:
    """The project as read from the catalog. Lateness depends on the current time, and is computed elsewhere."""

    status: ProjectStatus
    triggers: tuple[RegisteredTrigger, ...] = ()
    workflows: tuple[RegisteredWorkflow, ...] = ()
    runs: tuple[Run, ...] = ()  # the newest first

    @property
    def is_empty(self) -> bool:
        return not self.status.channels and not self.status.flows

    @cached_property
    def paused_workflows(self) -> frozenset[str]:
        return frozenset(w.name for w in self.workflows if w.paused)

    @cached_property
    def lagging_consumers(self) -> frozenset[ChannelConsumer]:
        """The consumers with unread blocks. A task has no lag on its own state, because it wrote it."""
        written = {(f.name, t.name, c) for f in self.status.flows for t in f.tasks for c, _ in t.writes}
        consumers = (c for channel in self.status.channels for c in channel.consumers)
        return frozenset(c for c in consumers if c.behind and (c.flow, c.task, c.channel) not in written)

    @cached_property
    def channel_index(self) -> dict[str, ChannelStatus]:
        return {c.registered.channel.name: c for c in self.status.channels}

    @cached_property
    def flow_index(self) -> dict[str, FlowStatus]:
        return {f.name: f for f in self.status.flows}

    @cached_property
    def writer_index(self) -> Mapping[str, list[FlowStatus]]:
        """By channel, the bound flows with a task that writes it."""
        writers: dict[str, list[FlowStatus]] = defaultdict(list)
        for flow in self.status.flows:
            for channel in dict.fromkeys(c for t in flow.tasks for c, _ in t.writes):
                writers[channel].append(flow)
        return writers

    @cached_property
    def written_index(self) -> Mapping[str, list[ChannelStatus]]:
        """By flow, the channels that its tasks write."""
        written: dict[str, list[ChannelStatus]] = defaultdict(list)
        for channel in self.status.channels:
            for flow in self.writer_index[channel.registered.channel.name]:
                written[flow.name].append(channel)
        return written

    @cached_property
    def active_index(self) -> Mapping[str, list[Run]]:
        """By flow, its runs that have not ended."""
        active: dict[str, list[Run]] = defaultdict(list)
        for run in self.status.active:
            if run.kind is RunKind.FLOW:
                active[run.subject].append(run)
        return active

    @cached_property
    def unread_index(self) -> Mapping[str, dict[str, int]]:
        """By flow and channel, the unread blocks: those of its task with the largest lag."""
        unread: dict[str, dict[str, int]] = defaultdict(dict)
        for consumer in sorted(self.lagging_consumers, key=lambda c: (c.channel, c.behind)):
            unread[consumer.flow][consumer.channel] = consumer.behind
        return unread

    @cached_property
    def trigger_index(self) -> Mapping[str, list[RegisteredTrigger]]:
        index: dict[str, list[RegisteredTrigger]] = defaultdict(list)
        for trigger in self.triggers:
            index[trigger.flow].append(trigger)
        return index


def take_snapshot(catalog: CatalogReader) -> ProjectSnapshot:
    return ProjectSnapshot(
        read_status(catalog),
        tuple(catalog.triggers.list()),
        tuple(catalog.workflows.list()),
        tuple(catalog.runs.list(limit=RUNS)),
    )
