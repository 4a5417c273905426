"""Execution of a bound flow: runs its tasks in order and builds the outcome that the commit makes visible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from tidemill.algebra.program import RefreshMode
from tidemill.errors import BadInput, BlockDamaged, Conflict, RunKilled, TidemillError
from tidemill.model.block import INITIAL_POSITION, Block, BlockKind, ChannelPosition, DataFile, advance_position
from tidemill.model.change import Append, Updates
from tidemill.model.channel import ChannelRole
from tidemill.model.codec import Json
from tidemill.model.evolution import find_unreadable_changes
from tidemill.model.flow import BoundFlow
from tidemill.model.run import (
    BACKFILL_TAG_PREFIX,
    VOID_IDENTITY,
    ConsumedInput,
    Consumption,
    ReadSpan,
    Run,
    RunClaim,
    RunOutcome,
    WrittenBlock,
    build_pending_block,
    compute_output_identity,
    compute_provenance,
)
from tidemill.model.schema import Schema
from tidemill.model.stateful import Stateful
from tidemill.model.task import ReadMode, Refresh, Task, TaskInput, TaskOutput
from tidemill.model.time import Version
from tidemill.model.view import ConvertedDelta, Snapshot, SnapshotDiff, View, list_blocks
from tidemill.planner.cost import CostModel, ScanVolume
from tidemill.planner.graph import DataSize
from tidemill.planner.refresh_mode import build_prior
from tidemill.ports.catalog import Catalog
from tidemill.ports.engine import Engine, Progress, WriteTarget
from tidemill.ports.records import RegisteredChannel
from tidemill.ports.storage import BlockStore
from tidemill.retention.compaction import estimate_merge_seconds
from tidemill.runtime.runs.leases import Lease
from tidemill.runtime.runs.log import RunLog
from tidemill.runtime.runs.reuse import find_reusable_blocks
from tidemill.runtime.runs.supervision import WorkTimer, run_supervised
from tidemill.runtime.runs.views import ChannelViews, compute_size

RunDetails = Mapping[str, Any]
"""Details that are recorded with a run, as JSON."""

PUBLISH_THREADS = 8
"""Outputs of a task that are made durable concurrently."""


def format_tag(run: Run) -> str:
    """Name under which the engine can cancel the jobs of this attempt, and recognises a backfill."""
    return f"{BACKFILL_TAG_PREFIX if run.backfill else 'tidemill-run'}-{run.id}-{run.fencing_token}"


def format_directory(claim: RunClaim, block: int) -> str:
    """Directory to which this attempt writes a block; no other attempt ever writes to it."""
    return f"{claim.directory}/{block}"


def supervise_task(
    engine: Engine,
    claim: RunClaim,
    lease: Lease,
    task: Task,
    inputs: Mapping[str, View],
    outputs: Mapping[str, WriteTarget],
    log: RunLog,
) -> Mapping[str, Schema]:
    """Run a task of a claimed run within its time limit, as long as the lease is held."""
    tag = format_tag(claim.run)
    return run_supervised(
        lambda: engine.run_task(task, inputs, outputs, tag=tag, log=log, now=claim.run.fencing_token),
        limit=task.time_limit,
        lost=lease.lost,
        stop=lambda: engine.cancel_jobs(tag),
    )


@dataclass(slots=True)
class FlowAttempt:
    """One attempt at a bound flow: runs the tasks in order and collects their outcome."""

    catalog: Catalog
    store: BlockStore
    engine: Engine
    binding: BoundFlow
    updates: Mapping[str, Updates]
    claim: RunClaim
    log: RunLog
    lease: Lease
    progress: Progress | None
    details: RunDetails  # further details to record with the run
    positions: dict[str, ChannelPosition] = field(default_factory=dict)  # of the channels written so far by this run
    pending: dict[str, list[Block]] = field(default_factory=dict)
    outputs: list[WrittenBlock] = field(default_factory=list)
    consumed: list[Consumption] = field(default_factory=list)
    stats: dict[str, Json] = field(default_factory=dict)
    costs: dict[tuple[str, str], Json] = field(default_factory=dict)
    merged: dict[str, float] = field(default_factory=dict)  # seconds spent on merging, by channel

    def run_tasks(self) -> RunOutcome:
        self.catalog.runs.mark_running(self.claim.run.id, self.claim.run.fencing_token)
        for done, task in enumerate(self.binding.tasks):
            if self.progress is not None:
                self.progress(task.name, done / len(self.binding.tasks))
            self._run_task(task)
        blocks, stats = tuple(self.outputs), {"tasks": self.stats, **self.details}
        merged = {channel: seconds for channel, seconds in self.merged.items() if seconds}
        return RunOutcome(blocks, tuple(self.consumed), stats, self.log.text, self.costs, merge_seconds=merged)

    def _run_task(self, task: Task) -> None:
        views = ChannelViews(self.catalog, self.updates)
        ports = {r.port for r in task.reads} | {w.port for w in task.writes}
        views.load(ports, {r.port for r in task.reads if r.mode is ReadMode.ALL})
        consumed = tuple(self._resolve_read(task, views, r) for r in task.reads)
        identities = {w.argument: compute_output_identity(task, w.argument, consumed) for w in task.writes}
        reused = find_reusable_blocks(self.catalog.blocks, self.store, views, task, identities)
        if reused is not None:
            self._reuse_blocks(task, views, consumed, reused)
            return
        inputs = self._build_inputs(task, views, consumed)
        _check_state(task, inputs)
        targets = {w.argument: self._build_target(task, views, w) for w in task.writes if not w.void}
        timer = WorkTimer()
        schemas = self._invoke_task(task, inputs, targets)
        self._check_schemas(task, views, schemas)
        files = self._publish_outputs(task, targets)
        watermark = self._read_watermark(task, files)
        for write in task.writes:
            reservation = self.claim.reservations[task.name, write.port]
            source, target = compute_provenance(task, write.kind, consumed)
            if write.void:
                schema = views.get_channel(write.port).channel.schema or Schema(())
                output = WrittenBlock(reservation, schema, (), VOID_IDENTITY, source, target)
            else:
                content = (schemas[write.argument], files[write.argument], identities[write.argument])
                output = WrittenBlock(reservation, *content, source, target, watermark)
            self._record_output(task, output, views)
        self._record_consumption(task, consumed)
        self._record_statistics(task, inputs, timer.elapsed_seconds, watermark)

    def _reuse_blocks(
        self, task: Task, views: ChannelViews, consumed: tuple[ConsumedInput, ...], blocks: Mapping[str, Block]
    ) -> None:
        """Write the task's outputs with the files of earlier blocks; its cost model learns nothing from that."""
        for write in task.writes:
            block, reservation = blocks[write.argument], self.claim.reservations[task.name, write.port]
            source, target = compute_provenance(task, write.kind, consumed)
            self.log.write_line(f"{task.name}: reuses block {block.id} of {block.channel}, which has the same identity")
            output = WrittenBlock(reservation, block.schema, block.files, block.identity, source, target)
            self._record_output(task, output, views)
        self._record_consumption(task, consumed)
        rows = {"rows_in": 0, "rows_out": sum(b.rows for b in blocks.values()), "content": 0, "change": 0}
        reused = {"reused_blocks": ", ".join(str(b.id) for b in blocks.values())}
        self.stats[task.name] = {"seconds": 0.0, **rows, "variant": task.variant.name, **reused}

    def _build_inputs(self, task: Task, views: ChannelViews, consumed: tuple[ConsumedInput, ...]) -> _LazyInputs:
        """Build the views of a task's inputs: full reads first, because they contain the blocks of the others.

        State is loaded lazily: often a task needs none of it.
        """
        pairs = sorted(zip(task.reads, consumed, strict=True), key=lambda pair: pair[0].mode is not ReadMode.ALL)
        inputs = _LazyInputs({r.argument: partial(self._build_view, views, r, c) for r, c in pairs})
        states = task.variant.code.states if isinstance(task.variant.code, Stateful) else ()
        for read, _ in pairs:
            if read.argument not in states:
                inputs[read.argument]
        return inputs

    def _check_schemas(self, task: Task, views: ChannelViews, schemas: Mapping[str, Schema]) -> None:
        """Check that all blocks of a content stay readable in a new schema: a column may be back with another type."""
        for write in (w for w in task.writes if w.kind is BlockKind.DELTA and not w.void):
            channel, schema = views.get_channel(write.port), schemas[write.argument]
            if channel.channel.schema in (None, schema):
                continue
            blocks = list_blocks(views.build_snapshot(write.port, channel.head.seq))
            changes = (find_unreadable_changes(b.schema, schema, b.updates.key) for b in blocks if b.files)
            if problems := list(dict.fromkeys(chain.from_iterable(changes))):
                raise BadInput(
                    f"channel {write.port} holds rows of an earlier result, which cannot change "
                    f"{' and '.join(problems)}; compute it from scratch: tidemill run FLOW --variant batch"
                )

    def _publish_outputs(self, task: Task, targets: Mapping[str, WriteTarget]) -> dict[str, tuple[DataFile, ...]]:
        """Make the files of all outputs durable, concurrently: most of the time is spent waiting for the disk."""
        reservations = {w.argument: self.claim.reservations[task.name, w.port] for w in task.writes if not w.void}
        directories = [format_directory(self.claim, reservation.block) for reservation in reservations.values()]
        rows = [targets[argument].receipt.rows for argument in reservations]
        if len(reservations) == 1:
            return dict(zip(reservations, map(self.store.publish_files, directories, rows), strict=True))
        with ThreadPoolExecutor(PUBLISH_THREADS) as pool:
            return dict(zip(reservations, pool.map(self.store.publish_files, directories, rows), strict=True))

    def _read_watermark(self, task: Task, files: Mapping[str, tuple[DataFile, ...]]) -> Version | None:
        """Read the watermark that the task wrote, if it writes one."""
        output = task.watermark_output
        if output is None:
            return None
        return self.store.find_latest_time(files[output.argument], output.watermark_column or "")

    def _invoke_task(
        self, task: Task, inputs: Mapping[str, View], targets: Mapping[str, WriteTarget]
    ) -> Mapping[str, Schema]:
        try:
            return supervise_task(self.engine, self.claim, self.lease, task, inputs, targets, self.log)
        except RunKilled:
            raise
        except TidemillError as error:
            self._report_damage(inputs, error)
            raise

    def _report_damage(self, inputs: Mapping[str, View], error: TidemillError) -> None:
        """Raise `BlockDamaged` if an input's files are damaged: that is the cause of the task's error."""
        for view in inputs.values():
            for block in list_blocks(view):
                try:
                    self.store.check_files(block.files)
                except BlockDamaged as damage:
                    raise BlockDamaged(f"block {block.id} of channel {block.channel}: {damage}") from error

    def _resolve_read(self, task: Task, views: ChannelViews, read: TaskInput) -> ConsumedInput:
        span = self.claim.spans[task.name, read.port]
        if read.port not in task.state_ports:
            span = ReadSpan(span.since, self.positions.get(read.port, span.upto))
        if read.from_start:
            span = ReadSpan(INITIAL_POSITION, INITIAL_POSITION if read.mode is ReadMode.ALL else span.upto)
        role = views.get_channel(read.port).channel.role
        return ConsumedInput(read.port, read.mode, span, role is ChannelRole.INPUT, read.advance)

    def _build_view(self, views: ChannelViews, read: TaskInput, consumed: ConsumedInput) -> View:
        span, pending = consumed.span, [b for b in self.pending.get(read.port, []) if b.seq <= consumed.span.upto.seq]
        if read.from_start:
            return self._build_initial_view(views, read, span.upto.seq, pending)
        match read.mode:
            case ReadMode.ALL:
                return views.build_snapshot(read.port, span.upto.seq, pending)
            case ReadMode.NEW:
                return views.build_change(read.port, span.since.seq, span.upto.seq, pending)
            case ReadMode.OLD:
                return views.build_snapshot(read.port, span.since.seq)

    def _build_initial_view(self, views: ChannelViews, read: TaskInput, upto: int, pending: Sequence[Block]) -> View:
        """Build the input of a task that never ran: its state and old content are empty, and all content is new."""
        empty = Snapshot(read.port, views.get_schema(read.port, pending), 0, None)
        if read.mode is not ReadMode.NEW:
            return empty
        content, updates = views.build_snapshot(read.port, upto, pending), views.get_updates(read.port)
        return content if isinstance(updates, Append) else SnapshotDiff(empty, content, updates)

    def _build_target(self, task: Task, views: ChannelViews, write: TaskOutput) -> WriteTarget:
        reservation = self.claim.reservations[task.name, write.port]
        directory = self.store.stage_directory(format_directory(self.claim, reservation.block))
        updates = write.updates or views.get_updates(write.port)
        continues_state = write.port in task.state_ports and not write.merges_into_empty
        before = self.claim.spans[task.name, write.port].upto.seq if continues_state else 0
        schema, is_observed = _choose_schema(task, write, views.get_channel(write.port))
        seqs = (reservation.seq, before)
        return WriteTarget(
            write.port, write.kind, directory, schema, updates, *seqs, write.merges_into_empty, is_observed
        )

    def _record_output(self, task: Task, output: WrittenBlock, views: ChannelViews) -> None:
        """Add an output to the outcome, and make it visible to later tasks of the run."""
        channel = output.reservation.channel
        before = self.positions.get(channel) or self._find_position_before(output, views.get_channel(channel).head)
        block = build_pending_block(output, views.get_updates(channel), before.seq)
        self.outputs.append(output)
        self.pending.setdefault(channel, []).append(block)
        self.positions[channel] = advance_position(before, block)
        self.log.write_line(f"{task.name}: {block.rows} rows to {channel}")

    def _find_position_before(self, output: WrittenBlock, head: ChannelPosition) -> ChannelPosition:
        if output.reservation.kind is BlockKind.BASE:
            return ChannelPosition()
        if head.seq == output.reservation.seq - 1:
            return head
        return self.catalog.channels.read_position(output.reservation.channel, seq=output.reservation.seq - 1)

    def _record_consumption(self, task: Task, reads: tuple[ConsumedInput, ...]) -> None:
        """Record one consumption per channel: from the cursor if any argument reads it as NEW or advances it."""
        new = {r.port for r in reads if r.mode is ReadMode.NEW or r.advance}
        for read in {r.port: r for r in reads}.values():
            since = self.claim.spans[task.name, read.port].since.seq if read.port in new else None
            is_unmoved = read.mode is ReadMode.OLD and read.port not in new
            upto = read.span.since if is_unmoved else read.span.upto
            self.consumed.append(Consumption(task.name, read.port, since, upto))

    def _record_statistics(
        self, task: Task, inputs: Mapping[str, View], seconds: float, watermark: Version | None
    ) -> None:
        read = {b.id: b.rows for view in inputs.values() for b in list_blocks(view)}
        rows_out = sum(f.rows for o in self.outputs if o.reservation.task == task.name for f in o.files)
        volume = _measure_input(task, inputs)
        stats = {"seconds": round(seconds, 3), "rows_in": sum(read.values()), "rows_out": rows_out}
        rows = {"content": int(volume.content), "change": int(volume.change)}
        details: Json = {} if watermark is None else {"watermark": watermark / 1e6}
        steps = [asdict(step) for step in self.log.take_steps()]
        self.stats[task.name] = {**stats, "variant": task.variant.name, **rows, **details, "steps": steps}
        self._update_cost_model(task, volume, seconds, _estimate_merge_costs(task, inputs))

    def _update_cost_model(
        self, task: Task, volume: ScanVolume, seconds: float, merge_seconds: Mapping[str, float]
    ) -> None:
        key, flow = (task.name, task.variant.name), self.binding.name
        sizes = [
            compute_size(o.files)
            for o in self.outputs
            if o.reservation.task == task.name and o.reservation.channel not in task.state_ports
        ]
        data = self.catalog.flows.read_costs([flow]).get((flow, *key))
        model = build_prior(task.variant.name, len(sizes)) if data is None else CostModel.from_json(data)
        for channel, seconds_estimate in merge_seconds.items():
            self.merged[channel] = self.merged.get(channel, 0.0) + model.merge_cost.cost_factor * seconds_estimate
        if len(model.output_ratios) == len(sizes):
            total_merge_seconds = sum(merge_seconds.values()) if merge_seconds else None
            self.costs[key] = model.add_run(volume, seconds, sizes, total_merge_seconds).to_json()


def _check_state(task: Task, inputs: Mapping[str, View]) -> None:
    """Raise `Conflict` if another run dropped this task's state after the run was planned."""
    if task.refresh is None:
        return
    states = [inputs[r.argument] for r in task.reads if r.port in task.state_ports]
    if any(isinstance(v, Snapshot) and v.base is not None and v.base.identity == VOID_IDENTITY for v in states):
        raise Conflict(f"the state of {task.name!r} was dropped since this run was planned; run it again")


class _LazyInputs(dict[str, View]):
    """Views by argument, each built on first access; `values()` are those that were built."""

    def __init__(self, builders: Mapping[str, Callable[[], View]]) -> None:
        super().__init__()
        self._make = builders

    def __missing__(self, argument: str) -> View:
        self[argument] = self._make[argument]()
        return self[argument]


def _measure_input(task: Task, inputs: Mapping[str, View]) -> ScanVolume:
    """Measure the content and the change that a task reads: the variables of its cost model."""
    sources = {r.argument: r.mode for r in task.reads if r.port not in task.state_ports}
    sizes = dict.fromkeys(ReadMode, DataSize(0, 0))
    for argument, mode in sources.items():
        view = inputs[argument]
        sizes[mode] += compute_size(list_blocks(view.chain if isinstance(view, ConvertedDelta) else view))
    change, content = sizes[ReadMode.NEW], sizes[ReadMode.ALL]
    return ScanVolume(change.rows, content.rows, change.bytes if change.rows else content.bytes)


def _estimate_merge_costs(task: Task, inputs: Mapping[str, View]) -> dict[str, float]:
    """Estimate the seconds that merging took on each channel whose content was read.

    A task that reads a channel's changes hardly reads its content, so that channel does not count. An incremental
    refresh looks up a few keys of the other channels, and any task a part of its state.
    """
    code = task.variant.code
    looks_up = isinstance(code, Refresh) and code.mode == RefreshMode.INCREMENTAL
    changed_ports = {r.port for r in task.reads if r.mode is ReadMode.NEW}
    views = {r.port: inputs.get(r.argument) for r in task.reads if r.port not in changed_ports}
    return {
        port: estimate_merge_seconds(view, full=not looks_up and port not in task.state_ports)
        for port, view in views.items()
        if isinstance(view, Snapshot)
    }


def _choose_schema(task: Task, write: TaskOutput, channel: RegisteredChannel) -> tuple[Schema | None, bool]:
    """Choose the schema that an output must have; True if it was only observed in earlier blocks.

    A declared table that is recomputed determines its schema from its query, unless one was declared.
    """
    code = task.variant.code
    if isinstance(code, Refresh) and write.kind is BlockKind.BASE:
        return (code.schema if write.argument == code.table else None), False
    if channel.declared is not None:
        return channel.declared, False
    return channel.channel.schema, not isinstance(code, Refresh)
