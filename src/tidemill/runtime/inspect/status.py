"""How everything stands: what channels hold, what that reflects, who is behind, and what runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tidemill.model.block import Kind
from tidemill.model.channel import Role
from tidemill.model.codec import Json
from tidemill.model.provenance import Pathway, Provenance
from tidemill.model.run import TO_COME, UNDER_WAY, Run, RunKind, RunState
from tidemill.model.task import Mode
from tidemill.model.time import Timeline, Version
from tidemill.planner.catalog_state import Kept, kept
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import RegisteredBinding, RegisteredChannel
from tidemill.runtime.freshness.watermarks import Edges, edges, newest_of

_ENOUGH = 100
"""Newest runs of one name that are looked through for a flow's last: compactions may bear the same name."""

Consumption = Mapping[tuple[str, str], int]
"""By task and channel, the sequence number up to which a flow has consumed the channel."""


@dataclass(frozen=True, slots=True)
class Reflected:
    """By one pathway, which versions of its input a channel reflects."""

    pathway: Pathway
    versions: tuple[Version, ...]  # ascending, never empty

    @property
    def latest(self) -> Version:
        return self.versions[-1]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A task that reads a channel, and how many blocks it has not seen yet."""

    flow: str
    task: str
    channel: str
    modes: tuple[Mode, ...]
    behind: int


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """A channel, what its head reflects, and who reads it."""

    registered: RegisteredChannel
    reflects: tuple[Reflected, ...]
    consumers: tuple[Consumer, ...]
    rows: int | None = None  # of its content; None: only reading it would tell
    edge: Version | None = None  # event time up to which all is there; None: it has none, or nobody can say
    kept: Kept | None = None  # how what is promised of it is kept; None: nothing is promised


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A task's signature, as it is registered."""

    name: str
    code: str
    reads: tuple[tuple[str, Mode], ...]
    writes: tuple[tuple[str, Kind], ...]
    location: str


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """A bound flow, its last run, and the channels on which new data waits for it."""

    name: str
    workflow: str
    tasks: tuple[TaskStatus, ...]
    last: Run | None
    waiting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """The whole project at one look. Channels and flows are in the order of their names."""

    channels: tuple[ChannelStatus, ...]
    flows: tuple[FlowStatus, ...]
    active: tuple[Run, ...]  # under way, or to come


def status(catalog: CatalogReader) -> Status:
    channels, bindings = catalog.channels(), catalog.bindings()
    consumers = _consumers(catalog, channels, bindings)
    active = [r for state in (*UNDER_WAY, *TO_COME) for r in catalog.runs(state=state)]
    ways = find_pathways(channels, bindings)
    time, known, rows = _timeline(catalog, channels, ways), edges(catalog, bindings), catalog.content_rows()
    return Status(
        channels=tuple(_channel(c, consumers, time, known, rows, ways) for c in channels),
        flows=tuple(_flow(catalog, b, consumers) for b in bindings),
        active=tuple(active),
    )


def without_states(value: Status) -> Status:
    """The same, without the channels that declared tables keep for themselves."""
    shown = tuple(c for c in value.channels if c.registered.channel.role is not Role.STATE)
    return replace(value, channels=shown)


def reflected(reached: Provenance) -> tuple[Reflected, ...]:
    return tuple(Reflected(pathway, tuple(sorted(versions))) for pathway, versions in reached.pathways.items())


def find_pathways(
    channels: Iterable[RegisteredChannel], bindings: Iterable[RegisteredBinding]
) -> dict[str, frozenset[Pathway]]:
    """By derived channel, the pathways by which inputs come to it, as its flows declare them."""
    roles = {c.channel.name: c.channel.role for c in channels}
    sources: dict[str, set[str]] = {}
    for task in (t for b in bindings for t in _tasks(b)):
        read = {c for c, _ in task.reads if roles.get(c) in (Role.INPUT, Role.DERIVED) and not _writes(task, c)}
        for written, _ in task.writes:
            sources.setdefault(written, set()).update(read)

    def ways(channel: str, passed: tuple[str, ...]) -> Iterator[Pathway]:
        for source in sources.get(channel, ()):
            if roles.get(source) is Role.INPUT:
                yield (source, *passed)
            elif source not in passed:
                yield from ways(source, (source, *passed))

    return {name: frozenset(ways(name, ())) for name, role in roles.items() if role is Role.DERIVED}


def _timeline(
    catalog: CatalogReader, channels: list[RegisteredChannel], ways: Mapping[str, Iterable[Pathway]]
) -> Timeline:
    """When the inputs of promised channels were updated, as far back as those reflect them."""
    oldest: dict[str, Version] = {}
    for known in (c for c in channels if c.channel.promise and c.head.reached.pathways):
        oldest |= {p[0]: 0 for p in ways.get(known.channel.name, ()) if p not in known.head.reached.pathways}
        for pathway, versions in known.head.reached.pathways.items():
            oldest[pathway[0]] = min(*versions, oldest.get(pathway[0], min(versions)))
    arrivals = {channel: catalog.versions(channel, since) for channel, since in oldest.items()}
    newest = max((versions[-1] for versions in arrivals.values() if versions), default=0)
    return Timeline(arrivals, max(int(catalog.now() * 1_000_000), newest + 1) if arrivals else newest)


def _channel(
    registered: RegisteredChannel,
    consumers: tuple[Consumer, ...],
    time: Timeline,
    known: Edges,
    rows: Mapping[str, int],
    ways: Mapping[str, Iterable[Pathway]],
) -> ChannelStatus:
    name, promise, reached = registered.channel.name, registered.channel.promise, registered.head.reached
    return ChannelStatus(
        registered,
        reflected(reached),
        tuple(c for c in consumers if c.channel == name),
        rows.get(name),
        known.of(name, newest_of(reached)),
        kept(promise, reached, time, ways.get(name, ())) if promise else None,
    )


def _flow(catalog: CatalogReader, binding: RegisteredBinding, consumers: tuple[Consumer, ...]) -> FlowStatus:
    waiting = {c.channel for c in consumers if c.flow == binding.name and c.behind}
    return FlowStatus(
        name=binding.name,
        workflow=binding.workflow,
        tasks=_tasks(binding),
        last=_last_run(catalog, binding.name),
        waiting=tuple(sorted(waiting)),
    )


def _tasks(binding: RegisteredBinding) -> tuple[TaskStatus, ...]:
    return tuple(_task(spec) for spec in binding.spec["tasks"])


def _task(spec: Json) -> TaskStatus:
    return TaskStatus(
        name=spec["name"],
        code=spec["code"],
        reads=tuple((r["channel"], Mode(r["mode"])) for r in spec["reads"]),
        writes=tuple((w["channel"], Kind(w["kind"])) for w in spec["writes"]),
        location=spec["location"],
    )


def _last_run(catalog: CatalogReader, flow: str) -> Run | None:
    return next((r for r in catalog.runs(subject=flow, limit=_ENOUGH) if r.kind is RunKind.FLOW), None)


def _consumers(
    catalog: CatalogReader, channels: list[RegisteredChannel], bindings: list[RegisteredBinding]
) -> tuple[Consumer, ...]:
    lengths = _Lengths(catalog, {c.channel.name: c.head.seq for c in channels})
    cursors = {(c.binding, c.task, c.channel): c.position.seq for c in catalog.cursors()}
    return tuple(c for b in bindings for c in _readers(b, _consumed(catalog, b, cursors), lengths))


def _readers(binding: RegisteredBinding, consumed: Consumption, lengths: _Lengths) -> list[Consumer]:
    """Of its own state a task has always seen everything: it wrote it."""
    return [
        Consumer(
            flow=binding.name,
            task=task.name,
            channel=channel,
            modes=modes,
            behind=0 if _writes(task, channel) else lengths.after(channel, consumed.get((task.name, channel), 0)),
        )
        for task in _tasks(binding)
        for channel, modes in _modes(task).items()
    ]


def _modes(task: TaskStatus) -> dict[str, tuple[Mode, ...]]:
    channels = dict.fromkeys(channel for channel, _ in task.reads)
    return {channel: tuple(mode for read, mode in task.reads if read == channel) for channel in channels}


def _writes(task: TaskStatus, channel: str) -> bool:
    return any(written == channel for written, _ in task.writes)


def _consumed(
    catalog: CatalogReader, binding: RegisteredBinding, cursors: Mapping[tuple[str, str, str], int]
) -> Consumption:
    """Where the cursors of a flow stand; of a task that reads all and has none, where its last finished run did."""
    consumed, open_reads = dict[tuple[str, str], int](), set[tuple[str, str]]()
    for task in _tasks(binding):
        for channel, modes in _modes(task).items():
            cursor = cursors.get((binding.name, task.name, channel))
            if cursor is not None:
                consumed[task.name, channel] = cursor
            elif set(modes) == {Mode.ALL} and not _writes(task, channel):
                open_reads.add((task.name, channel))
    return _recall_readings(catalog, binding.name, open_reads) | consumed if open_reads else consumed


def _recall_readings(catalog: CatalogReader, flow: str, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """How far the last finished run read that read these at all: some runs of a flow have nothing to do."""
    found: dict[tuple[str, str], int] = {}
    for run in catalog.runs(subject=flow, state=RunState.FINISHED, limit=_ENOUGH):
        if run.kind is RunKind.FLOW and run.stats.get("tasks"):
            read = {(r.task, r.channel): r.upto for r in catalog.readings(run.id)}
            found = {key: upto for key, upto in read.items() if key in wanted} | found
            if wanted <= found.keys():
                break
    return found


class _Lengths:
    """Counts the blocks between a point and the head of a channel; asks the catalog once a channel."""

    def __init__(self, catalog: CatalogReader, heads: Mapping[str, int]) -> None:
        self._catalog = catalog
        self._heads = heads
        self._known: dict[str, frozenset[int]] = {}

    def after(self, channel: str, since: int) -> int:
        head = self._heads.get(channel, 0)
        return sum(1 for seq in self._seqs(channel) if since < seq <= head) if since < head else 0

    def _seqs(self, channel: str) -> frozenset[int]:
        # A compacted base shares the place of the delta it ends with, and is no news to anybody.
        if channel not in self._known:
            self._known[channel] = frozenset(b.seq for b in self._catalog.filled(channel))
        return self._known[channel]
