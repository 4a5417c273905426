"""Status of a project: contents of channels, the versions they reflect, the lag of consumers, and active runs."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.model.channel import ChannelRole
from tidemill.model.notice import AlarmReading
from tidemill.model.provenance import Pathway, Provenance, walk_pathways
from tidemill.model.run import ACTIVE_STATES, PENDING_STATES, Run
from tidemill.model.task import ReadMode
from tidemill.model.time import Timeline, Version
from tidemill.planner.catalog_state import TargetStatus, compute_target_status
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import Reader, RegisteredBinding, RegisteredChannel, RegisteredTask
from tidemill.runtime.freshness.watermarks import find_newest_versions, read_watermarks


@dataclass(frozen=True, slots=True)
class ReflectedVersions:
    """The versions of an input that a channel reflects by one pathway."""

    pathway: Pathway
    versions: tuple[Version, ...]  # ascending, never empty

    @property
    def latest_version(self) -> Version:
        return self.versions[-1]


@dataclass(frozen=True, slots=True)
class ChannelConsumer:
    """A task that reads a channel, and the number of blocks that it has not read yet."""

    flow: str
    task: str
    channel: str
    modes: tuple[ReadMode, ...]
    behind: int


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """A channel, the versions that its head reflects, and its consumers."""

    registered: RegisteredChannel
    reflects: tuple[ReflectedVersions, ...]
    consumers: tuple[ChannelConsumer, ...]
    rows: int | None = None  # of its content; None: unknown without reading it
    watermark: Version | None = None  # watermark; None: it has no event time, or the watermark is unknown
    target_status: TargetStatus | None = None  # status of its freshness target; None: it has none


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """A bound flow, its last run, and the channels with pending data for it."""

    name: str
    workflow: str
    tasks: tuple[RegisteredTask, ...]
    last: Run | None
    pending_channels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProjectStatus:
    """The status of a whole project. Channels and flows are sorted by name."""

    channels: tuple[ChannelStatus, ...]
    flows: tuple[FlowStatus, ...]
    active: tuple[Run, ...]  # running or queued


def read_status(catalog: CatalogReader) -> ProjectStatus:
    """Read the status, in a constant number of queries but for two for each channel with event time."""
    channels, bindings = catalog.channels.list(), catalog.flows.list()
    consumers = _list_consumers(catalog, channels, bindings)
    active = [r for state in (*ACTIVE_STATES, *PENDING_STATES) for r in catalog.runs.list(state=state)]
    return ProjectStatus(
        channels=tuple(_build_channel_statuses(catalog, channels, bindings, consumers)),
        flows=tuple(_build_flow_statuses(catalog, bindings, consumers)),
        active=tuple(active),
    )


def read_target_statuses(catalog: CatalogReader) -> dict[str, TargetStatus]:
    """Read how each channel with a freshness target meets it, without the rest of the status."""
    channels = catalog.channels.list()
    targeted = [c for c in channels if c.channel.freshness_target]
    if not targeted:
        return {}
    pathways = find_pathways(channels, catalog.flows.list())
    timeline = _build_timeline(catalog, channels, pathways)
    statuses = ((c.channel.name, _compute_target_status(c, timeline, pathways)) for c in targeted)
    return {name: status for name, status in statuses if status is not None}


def hide_state_channels(value: ProjectStatus) -> ProjectStatus:
    """Return the status without the internal state channels of declared tables."""
    shown = tuple(c for c in value.channels if c.registered.channel.role is not ChannelRole.STATE)
    return replace(value, channels=shown)


def list_reflected_versions(reached: Provenance) -> tuple[ReflectedVersions, ...]:
    return tuple(ReflectedVersions(pathway, tuple(sorted(versions))) for pathway, versions in reached.pathways.items())


def find_pathways(
    channels: Iterable[RegisteredChannel], bindings: Iterable[RegisteredBinding]
) -> dict[str, frozenset[Pathway]]:
    """Return the pathways from inputs to each derived channel, as its flows declare them."""
    roles = {c.channel.name: c.channel.role for c in channels}
    sources: dict[str, set[str]] = {}
    for task in (t for b in bindings for t in b.tasks):
        read = task.read_channels - task.written_channels
        read = {c for c in read if roles.get(c) in (ChannelRole.INPUT, ChannelRole.DERIVED)}
        for written in task.written_channels:
            sources.setdefault(written, set()).update(read)
    inputs = {name for name, role in roles.items() if role is ChannelRole.INPUT}
    derived = [name for name, role in roles.items() if role is ChannelRole.DERIVED]
    return {name: frozenset(walk_pathways(sources, inputs, (name,))) for name in derived}


def _build_timeline(
    catalog: CatalogReader, channels: Iterable[RegisteredChannel], pathways: Mapping[str, Iterable[Pathway]]
) -> Timeline:
    """Read the versions of inputs that follow those that channels with freshness targets reflect, and the newest."""
    reflected: dict[str, set[Version]] = defaultdict(set)
    for registered in (c for c in channels if c.channel.freshness_target and c.head.provenance.pathways):
        reached = registered.head.provenance.pathways
        for pathway in {*pathways.get(registered.channel.name, ()), *reached}:
            reflected[pathway[0]] |= reached.get(pathway, frozenset({0}))
    arrivals = catalog.channels.find_next_versions(reflected)
    newest = max((versions[-1] for versions in arrivals.values() if versions), default=0)
    return Timeline(arrivals, max(int(catalog.read_time() * 1_000_000), newest + 1) if arrivals else newest)


def _build_channel_statuses(
    catalog: CatalogReader,
    channels: Sequence[RegisteredChannel],
    bindings: Sequence[RegisteredBinding],
    consumers: Iterable[ChannelConsumer],
) -> Iterator[ChannelStatus]:
    pathways, by_channel = find_pathways(channels, bindings), defaultdict[str, list[ChannelConsumer]](list)
    timeline, watermarks = _build_timeline(catalog, channels, pathways), read_watermarks(catalog.blocks, bindings)
    rows = catalog.channels.count_content_rows()
    for consumer in consumers:
        by_channel[consumer.channel].append(consumer)
    for registered in channels:
        name, reached = registered.channel.name, registered.head.provenance
        yield ChannelStatus(
            registered,
            list_reflected_versions(reached),
            tuple(by_channel[name]),
            rows.get(name),
            watermarks.find_earliest_watermark(name, find_newest_versions(reached)),
            _compute_target_status(registered, timeline, pathways),
        )


def _compute_target_status(
    registered: RegisteredChannel, timeline: Timeline, pathways: Mapping[str, Iterable[Pathway]]
) -> TargetStatus | None:
    target, declared = registered.channel.freshness_target, pathways.get(registered.channel.name, ())
    return compute_target_status(target, registered.head.provenance, timeline, declared) if target else None


def _build_flow_statuses(
    catalog: CatalogReader, bindings: Iterable[RegisteredBinding], consumers: Iterable[ChannelConsumer]
) -> Iterator[FlowStatus]:
    newest, pending = catalog.runs.list_newest_flow_runs(), defaultdict[str, set[str]](set)
    for consumer in consumers:
        if consumer.behind:
            pending[consumer.flow].add(consumer.channel)
    for flow in bindings:
        yield FlowStatus(flow.name, flow.workflow, flow.tasks, newest.get(flow.name), tuple(sorted(pending[flow.name])))


def _list_consumers(
    catalog: CatalogReader, channels: Iterable[RegisteredChannel], bindings: Sequence[RegisteredBinding]
) -> tuple[ChannelConsumer, ...]:
    """List all readers of channels. A task never lags behind its own state, which it wrote."""
    heads = {c.channel.name: c.head.seq for c in channels}
    modes = {(b.name, t.name, c): m for b in bindings for t in b.tasks for c, m in _group_modes(t).items()}
    own_states = {(b.name, t.name, c) for b in bindings for t in b.tasks for c in t.written_channels}
    consumed = _read_consumption(catalog, {reader: m for reader, m in modes.items() if reader not in own_states})
    behind = _count_pending(catalog, {reader: seq for reader, seq in consumed.items() if seq < heads.get(reader[2], 0)})
    return tuple(ChannelConsumer(*reader, m, behind.get(reader, 0)) for reader, m in modes.items())


def _group_modes(task: RegisteredTask) -> dict[str, tuple[ReadMode, ...]]:
    channels = dict.fromkeys(channel for channel, _ in task.reads)
    return {channel: tuple(mode for read, mode in task.reads if read == channel) for channel in channels}


def _read_consumption(catalog: CatalogReader, modes: Mapping[Reader, tuple[ReadMode, ...]]) -> dict[Reader, int]:
    """Read the positions of cursors; of full reads without a cursor, those of the flow's last run that read."""
    cursors = {(c.binding, c.task, c.channel): c.position.seq for c in catalog.channels.read_cursors()}
    open_reads = {reader for reader, m in modes.items() if reader not in cursors and set(m) == {ReadMode.ALL}}
    last_reads = catalog.runs.list_last_reads() if open_reads else {}
    positions = {reader: seq for reader, seq in last_reads.items() if reader in open_reads} | cursors
    return {reader: positions.get(reader, 0) for reader in modes}


def _count_pending(catalog: CatalogReader, positions: Mapping[Reader, int]) -> dict[Reader, int]:
    """Count the unread blocks after each position.

    A compacted base has the sequence number of the last delta that it contains, and adds nothing new.
    """
    earliest: dict[str, int] = {}
    for (_, _, channel), seq in positions.items():
        earliest[channel] = min(seq, earliest.get(channel, seq))
    pending = catalog.channels.list_pending_seqs(earliest)
    return {
        reader: len(pending[reader[2]]) - bisect_right(pending[reader[2]], seq) for reader, seq in positions.items()
    }


TARGET_SLACK_SECONDS = 5.0
"""Seconds beyond a freshness target that are not reported, because starting a run takes time."""


def read_target_alarms(catalog: CatalogReader) -> dict[str, AlarmReading]:
    """The condition of each freshness target, by channel."""
    return {channel: read_target_alarm(status) for channel, status in read_target_statuses(catalog).items()}


def read_target_alarm(status: TargetStatus) -> AlarmReading:
    """The alarm begins when the slack is over, and ends when the target is met."""
    late = status.list_late_pathways()
    if not late and not status.is_inconsistent:
        return AlarmReading(False)
    is_missed = status.is_inconsistent or bool(status.list_late_pathways(TARGET_SLACK_SECONDS))
    return AlarmReading(is_missed or None, _describe_miss(status, late[0] if late else None))


def _describe_miss(status: TargetStatus, pathway: Pathway | None) -> dict[str, object]:
    if pathway is None:
        return {"pathway": None, "inconsistency": status.inconsistency, "consistency": status.consistency}
    staleness = round(status.staleness[pathway], 3)
    return {"pathway": list(pathway), "staleness": staleness, "target_lag": status.bounds[pathway]}
