"""Status of a project: contents of channels, the versions they reflect, the lag of consumers, and active runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from tidemill.model.channel import ChannelRole
from tidemill.model.notice import AlarmReading
from tidemill.model.provenance import Pathway, Provenance, walk_pathways
from tidemill.model.run import ACTIVE_STATES, PENDING_STATES, Run, RunKind, RunState
from tidemill.model.task import ReadMode
from tidemill.model.time import Timeline, Version
from tidemill.planner.catalog_state import TargetStatus, compute_target_status
from tidemill.ports.catalog import CatalogReader, RunQueries
from tidemill.ports.records import RegisteredBinding, RegisteredChannel, RegisteredTask
from tidemill.runtime.freshness.watermarks import WatermarkHistory, find_newest_versions, read_watermarks

_RECENT_RUNS = 100
"""Newest runs of one subject that are searched for a flow's last one: compactions may have the same subject."""

Consumption = Mapping[tuple[str, str], int]
"""The sequence number up to which a flow has consumed a channel, by task and channel."""


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
    channels, bindings = catalog.channels.list(), catalog.flows.list()
    consumers = _list_consumers(catalog, channels, bindings)
    active = [r for state in (*ACTIVE_STATES, *PENDING_STATES) for r in catalog.runs.list(state=state)]
    pathways = find_pathways(channels, bindings)
    timeline, watermarks = _build_timeline(catalog, channels, pathways), read_watermarks(catalog.blocks, bindings)
    rows = catalog.channels.count_content_rows()
    return ProjectStatus(
        channels=tuple(_build_channel_status(c, consumers, timeline, watermarks, rows, pathways) for c in channels),
        flows=tuple(_build_flow_status(catalog.runs, b, consumers) for b in bindings),
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
    catalog: CatalogReader, channels: list[RegisteredChannel], pathways: Mapping[str, Iterable[Pathway]]
) -> Timeline:
    """Read the versions of the inputs of channels with freshness targets, from the oldest that those reflect."""
    oldest: dict[str, Version] = {}
    for registered in (c for c in channels if c.channel.freshness_target and c.head.provenance.pathways):
        reached = registered.head.provenance.pathways
        oldest |= {p[0]: 0 for p in pathways.get(registered.channel.name, ()) if p not in reached}
        for pathway, versions in reached.items():
            oldest[pathway[0]] = min(*versions, oldest.get(pathway[0], min(versions)))
    arrivals = {channel: catalog.channels.list_versions(channel, since) for channel, since in oldest.items()}
    newest = max((versions[-1] for versions in arrivals.values() if versions), default=0)
    return Timeline(arrivals, max(int(catalog.read_time() * 1_000_000), newest + 1) if arrivals else newest)


def _build_channel_status(
    registered: RegisteredChannel,
    consumers: tuple[ChannelConsumer, ...],
    timeline: Timeline,
    watermarks: WatermarkHistory,
    rows: Mapping[str, int],
    pathways: Mapping[str, Iterable[Pathway]],
) -> ChannelStatus:
    name, reached = registered.channel.name, registered.head.provenance
    return ChannelStatus(
        registered,
        list_reflected_versions(reached),
        tuple(c for c in consumers if c.channel == name),
        rows.get(name),
        watermarks.find_earliest_watermark(name, find_newest_versions(reached)),
        _compute_target_status(registered, timeline, pathways),
    )


def _compute_target_status(
    registered: RegisteredChannel, timeline: Timeline, pathways: Mapping[str, Iterable[Pathway]]
) -> TargetStatus | None:
    target, declared = registered.channel.freshness_target, pathways.get(registered.channel.name, ())
    return compute_target_status(target, registered.head.provenance, timeline, declared) if target else None


def _build_flow_status(
    runs: RunQueries, binding: RegisteredBinding, consumers: tuple[ChannelConsumer, ...]
) -> FlowStatus:
    pending = {c.channel for c in consumers if c.flow == binding.name and c.behind}
    recent = runs.list(subject=binding.name, limit=_RECENT_RUNS)
    last = next((run for run in recent if run.kind is RunKind.FLOW), None)
    return FlowStatus(binding.name, binding.workflow, binding.tasks, last, tuple(sorted(pending)))


def _list_consumers(
    catalog: CatalogReader, channels: list[RegisteredChannel], bindings: list[RegisteredBinding]
) -> tuple[ChannelConsumer, ...]:
    heads = {c.channel.name: c.head.seq for c in channels}
    cursors = {(c.binding, c.task, c.channel): c.position.seq for c in catalog.channels.read_cursors()}

    @cache
    def read_seqs(channel: str) -> frozenset[int]:
        # A compacted base has the sequence number of the last delta it contains, and adds nothing new.
        return frozenset(b.seq for b in catalog.blocks.list_filled(channel))

    def count_after(channel: str, since: int) -> int:
        head = heads.get(channel, 0)
        return sum(since < seq <= head for seq in read_seqs(channel)) if since < head else 0

    consumed = {b.name: _read_consumption(catalog.runs, b, cursors) for b in bindings}
    return tuple(c for b in bindings for c in _build_consumers(b, consumed[b.name], count_after))


def _build_consumers(
    binding: RegisteredBinding, consumed: Consumption, count_after: Callable[[str, int], int]
) -> Iterator[ChannelConsumer]:
    """Build a flow's consumers; a task never lags behind its own state, which it wrote."""
    for task in binding.tasks:
        for channel, modes in _group_modes(task).items():
            is_state = channel in task.written_channels
            behind = 0 if is_state else count_after(channel, consumed.get((task.name, channel), 0))
            yield ChannelConsumer(binding.name, task.name, channel, modes, behind)


def _group_modes(task: RegisteredTask) -> dict[str, tuple[ReadMode, ...]]:
    channels = dict.fromkeys(channel for channel, _ in task.reads)
    return {channel: tuple(mode for read, mode in task.reads if read == channel) for channel in channels}


def _read_consumption(
    runs: RunQueries, binding: RegisteredBinding, cursors: Mapping[tuple[str, str, str], int]
) -> Consumption:
    """Return the positions of a flow's cursors; for full reads without a cursor, those of the last finished run."""
    consumed, open_reads = dict[tuple[str, str], int](), set[tuple[str, str]]()
    for task in binding.tasks:
        for channel, modes in _group_modes(task).items():
            cursor = cursors.get((binding.name, task.name, channel))
            if cursor is not None:
                consumed[task.name, channel] = cursor
            elif set(modes) == {ReadMode.ALL} and channel not in task.written_channels:
                open_reads.add((task.name, channel))
    return _read_last_readings(runs, binding.name, open_reads) | consumed if open_reads else consumed


def _read_last_readings(runs: RunQueries, flow: str, open_reads: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return how far the last finished run read each of these: some runs of a flow have nothing to do."""
    positions: dict[tuple[str, str], int] = {}
    for run in runs.list(subject=flow, state=RunState.FINISHED, limit=_RECENT_RUNS):
        if run.kind is RunKind.FLOW and run.stats.get("tasks"):
            read = {(r.task, r.channel): r.upto for r in runs.list_reads(run.id)}
            positions = {key: upto for key, upto in read.items() if key in open_reads} | positions
            if open_reads <= positions.keys():
                break
    return positions


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
