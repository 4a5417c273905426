"""Performing a bound flow: its tasks, one after another, towards everything that will become visible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tidemill.algebra.program import Way
from tidemill.errors import BlockDamaged, Conflict, RunKilled, TidemillError
from tidemill.model.block import BEGINNING, Block, File, Kind, Position, advance
from tidemill.model.change import Append, Updates
from tidemill.model.channel import Role
from tidemill.model.codec import Json
from tidemill.model.flow import Binding
from tidemill.model.run import (
    BACKFILL,
    VOID,
    Claim,
    Consumed,
    Consumption,
    Filled,
    Outcome,
    Run,
    Span,
    output_identity,
    pending,
    provenance,
)
from tidemill.model.schema import Schema
from tidemill.model.stateful import Stateful
from tidemill.model.task import Mode, Read, Refresh, Task, Write
from tidemill.model.time import Version
from tidemill.model.view import Converted, Difference, Snapshot, View, blocks_of
from tidemill.planner.cost import Learnt, Looked, times
from tidemill.planner.graph import Size
from tidemill.planner.refresh_mode import prior
from tidemill.ports.catalog import CatalogWriter
from tidemill.ports.engine import Engine, Progress, Target
from tidemill.ports.records import RegisteredChannel
from tidemill.ports.storage import BlockStore
from tidemill.retention.compaction import merging
from tidemill.runtime.freshness.refresh_mode import size_of
from tidemill.runtime.runs.lease import Lease
from tidemill.runtime.runs.log import RunLog
from tidemill.runtime.runs.supervision import Timer, supervised
from tidemill.runtime.runs.views import Views

Told = Mapping[str, Any]
"""What a run is to be remembered with, as JSON."""

PUBLISHERS = 8
"""Outputs of a task that are made durable at once."""


def tag_of(run: Run) -> str:
    """The name under which the engine can stop whatever this attempt runs, and knows a backfill."""
    return f"{BACKFILL if run.backfill else 'tidemill-run'}-{run.id}-{run.fence}"


def directory_of(claim: Claim, block: int) -> str:
    """Where this attempt writes a block; no other attempt ever does."""
    return f"{claim.directory}/{block}"


@dataclass(slots=True)
class Performance:
    """One attempt at a bound flow, task by task, towards its outcome."""

    catalog: CatalogWriter
    store: BlockStore
    engine: Engine
    binding: Binding
    updates: Mapping[str, Updates]
    claim: Claim
    log: RunLog
    lease: Lease
    progress: Progress | None
    told: Told  # what else is to be known of the run
    positions: dict[str, Position] = field(default_factory=dict)  # of channels written so far in this run
    pending: dict[str, list[Block]] = field(default_factory=dict)
    filled: list[Filled] = field(default_factory=list)
    consumed: list[Consumption] = field(default_factory=list)
    stats: dict[str, dict[str, float | str]] = field(default_factory=dict)
    costs: dict[tuple[str, str], Json] = field(default_factory=dict)
    merged: dict[str, float] = field(default_factory=dict)  # by channel, the seconds that merging took

    def outcome(self) -> Outcome:
        self.catalog.began(self.claim.run.id, self.claim.run.fence)
        for done, task in enumerate(self.binding.tasks):
            if self.progress is not None:
                self.progress(task.name, done / len(self.binding.tasks))
            self._task(task)
        stats = {"tasks": self.stats, **self.told}
        merged = {channel: spent for channel, spent in self.merged.items() if spent}
        return Outcome(tuple(self.filled), tuple(self.consumed), stats, self.log.text, self.costs, merged=merged)

    def _task(self, task: Task) -> None:
        views = Views(self.catalog, self.updates)
        consumed = tuple(self._consumed(task, views, r) for r in task.reads)
        inputs = self._inputs(task, views, consumed)
        _check_state(task, inputs)
        targets = {w.argument: self._target(task, views, w) for w in task.writes if not w.void}
        timer = Timer(self.engine)
        schemas = self._invoke(task, inputs, targets)
        files = self._published(task, targets)
        edge = self._edge(task, files)
        for write in task.writes:
            slot = self.claim.slots[task.name, write.port]
            source, target = provenance(task, write.kind, consumed)
            if write.void:
                schema = views.channel(write.port).channel.schema or Schema(())
                filled = Filled(slot, schema, (), VOID, source, target)
            else:
                identity = output_identity(task, write.argument, consumed)
                filled = Filled(slot, schemas[write.argument], files[write.argument], identity, source, target, edge)
            self._fill(task, filled, views)
        self._consume(task, consumed)
        self._count(task, inputs, timer.seconds, edge)

    def _inputs(self, task: Task, views: Views, consumed: tuple[Consumed, ...]) -> _Inputs:
        """What is asked for all of it comes first: it holds the rest. Of a step's own state often nothing is needed."""
        pairs = sorted(zip(task.reads, consumed, strict=True), key=lambda pair: pair[0].mode is not Mode.ALL)
        inputs = _Inputs({r.argument: partial(self._view, views, r, c) for r, c in pairs})
        kept = task.variant.code.states if isinstance(task.variant.code, Stateful) else ()
        for read, _ in pairs:
            if read.argument not in kept:
                inputs[read.argument]
        return inputs

    def _published(self, task: Task, targets: Mapping[str, Target]) -> dict[str, tuple[File, ...]]:
        """The files of all outputs, made durable side by side: most of that is waiting for the disk."""
        slots = {w.argument: self.claim.slots[task.name, w.port] for w in task.writes if not w.void}
        directories = [directory_of(self.claim, slot.block) for slot in slots.values()]
        rows = [targets[argument].receipt.rows for argument in slots]
        if len(slots) == 1:
            return dict(zip(slots, map(self.store.publish, directories, rows), strict=True))
        with ThreadPoolExecutor(PUBLISHERS) as pool:
            return dict(zip(slots, pool.map(self.store.publish, directories, rows), strict=True))

    def _edge(self, task: Task, files: Mapping[str, tuple[File, ...]]) -> Version | None:
        """How far event time is settled now."""
        tells = task.edge
        return None if tells is None else self.store.greatest(files[tells.argument], tells.edge or "")

    def _invoke(self, task: Task, inputs: Mapping[str, View], targets: Mapping[str, Target]) -> Mapping[str, Schema]:
        tag = tag_of(self.claim.run)
        try:
            return supervised(
                lambda: self.engine.invoke(task, inputs, targets, tag=tag, log=self.log, now=self.claim.run.fence),
                limit=task.time_limit,
                lost=self.lease.lost,
                stop=lambda: self.engine.cancel(tag),
            )
        except RunKilled:
            raise
        except TidemillError as error:
            self._blame_damage(inputs, error)
            raise

    def _blame_damage(self, inputs: Mapping[str, View], error: TidemillError) -> None:
        """If an input's files are damaged, that is the error to report, not what the task made of it."""
        for view in inputs.values():
            for block in blocks_of(view):
                try:
                    self.store.check(block.files)
                except BlockDamaged as damage:
                    raise BlockDamaged(f"block {block.id} of channel {block.channel}: {damage}") from error

    def _consumed(self, task: Task, views: Views, read: Read) -> Consumed:
        span = self.claim.spans[task.name, read.port]
        if read.port not in task.states:
            span = Span(span.since, self.positions.get(read.port, span.upto))
        if read.afresh:
            span = Span(BEGINNING, BEGINNING if read.mode is Mode.ALL else span.upto)
        role = views.channel(read.port).channel.role
        return Consumed(read.port, read.mode, span, role is Role.INPUT, read.advance)

    def _view(self, views: Views, read: Read, consumed: Consumed) -> View:
        span, own = consumed.span, [b for b in self.pending.get(read.port, []) if b.seq <= consumed.span.upto.seq]
        if read.afresh:
            return self._view_afresh(views, read, span.upto.seq, own)
        match read.mode:
            case Mode.ALL:
                return views.snapshot(read.port, span.upto.seq, own)
            case Mode.NEW:
                return views.change(read.port, span.since.seq, span.upto.seq, own)
            case Mode.OLD:
                return views.snapshot(read.port, span.since.seq)

    def _view_afresh(self, views: Views, read: Read, upto: int, own: Sequence[Block]) -> View:
        """What a task is fed that never ran: its state and what was there before are empty, and all there is is new."""
        nothing = Snapshot(read.port, views.schema(read.port, own), 0, None)
        if read.mode is not Mode.NEW:
            return nothing
        content, updates = views.snapshot(read.port, upto, own), views.updates(read.port)
        return content if isinstance(updates, Append) else Difference(nothing, content, updates)

    def _target(self, task: Task, views: Views, write: Write) -> Target:
        slot = self.claim.slots[task.name, write.port]
        directory = self.store.stage(directory_of(self.claim, slot.block))
        updates = write.updates or views.updates(write.port)
        goes_on = write.port in task.states and not write.merged
        before = self.claim.spans[task.name, write.port].upto.seq if goes_on else 0
        schema, learnt = _schema(task, write, views.channel(write.port))
        return Target(write.port, write.kind, directory, schema, updates, slot.seq, before, write.merged, learnt)

    def _fill(self, task: Task, filled: Filled, views: Views) -> None:
        """Keep an output for the commit, and let later tasks of the run see it."""
        channel = filled.slot.channel
        before = self.positions.get(channel) or self._position_before(filled, views.channel(channel).head)
        block = pending(filled, views.updates(channel), before.seq)
        self.filled.append(filled)
        self.pending.setdefault(channel, []).append(block)
        self.positions[channel] = advance(before, block)
        self.log.say(f"{task.name}: {block.rows} rows to {channel}")

    def _position_before(self, filled: Filled, head: Position) -> Position:
        if filled.slot.kind is Kind.BASE:
            return Position()
        if head.seq == filled.slot.seq - 1:
            return head
        return self.catalog.position(filled.slot.channel, seq=filled.slot.seq - 1)

    def _consume(self, task: Task, reads: tuple[Consumed, ...]) -> None:
        """One consumption a channel: from the cursor on if any argument reads it as NEW, or moves it."""
        new = {r.port for r in reads if r.mode is Mode.NEW or r.advance}
        for read in {r.port: r for r in reads}.values():
            since = self.claim.spans[task.name, read.port].since.seq if read.port in new else None
            held = read.mode is Mode.OLD and read.port not in new
            self.consumed.append(Consumption(task.name, read.port, since, read.span.since if held else read.span.upto))

    def _count(self, task: Task, inputs: Mapping[str, View], seconds: float, edge: Version | None) -> None:
        read = {b.id: b.rows for view in inputs.values() for b in blocks_of(view)}
        rows_out = sum(f.rows for o in self.filled if o.slot.task == task.name for f in o.files)
        looked = _looked_at(task, inputs)
        stats = {"seconds": round(seconds, 3), "rows_in": sum(read.values()), "rows_out": rows_out}
        rows = {"content": int(looked.content), "change": int(looked.change)}
        told = {} if edge is None else {"edge": edge / 1e6}
        self.stats[task.name] = {**stats, "variant": task.variant.name, **rows, **told}
        self._learn(task, looked, seconds, _merging(task, inputs))

    def _learn(self, task: Task, looked: Looked, seconds: float, merging: Mapping[str, float]) -> None:
        key = (task.name, task.variant.name)
        made = [_size(o) for o in self.filled if o.slot.task == task.name and o.slot.channel not in task.states]
        known = self.catalog.costs(self.binding.name).get(key)
        learnt = prior(task.variant.name, len(made)) if known is None else Learnt.from_json(known)
        for channel, guess in merging.items():
            self.merged[channel] = self.merged.get(channel, 0.0) + learnt.merged.times * guess
        if len(learnt.yields) == len(made):
            spent = sum(merging.values()) if merging else None
            self.costs[key] = learnt.after(looked, seconds, made, spent).to_json()


def _check_state(task: Task, inputs: Mapping[str, View]) -> None:
    """Between a plan and its run another run may have dropped the state that this one would go on from."""
    if task.refresh is None:
        return
    kept = [inputs[r.argument] for r in task.reads if r.port in task.states]
    if any(isinstance(v, Snapshot) and v.base is not None and v.base.identity == VOID for v in kept):
        raise Conflict(f"the state of {task.name!r} was dropped since this run was planned; run it again")


class _Inputs(dict[str, View]):
    """Views by argument, each made when it is first asked for; its values are those that were."""

    def __init__(self, make: Mapping[str, Callable[[], View]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, argument: str) -> View:
        self[argument] = self._make[argument]()
        return self[argument]


def _looked_at(task: Task, inputs: Mapping[str, View]) -> Looked:
    """How much of a task's channels there is, and how much of it changed: what its cost is learnt from."""
    sources = {r.argument: r.mode for r in task.reads if r.port not in task.states}
    found = dict.fromkeys(Mode, Size(0, 0))
    for argument, mode in sources.items():
        view = inputs[argument]
        found[mode] += size_of(blocks_of(view.chain if isinstance(view, Converted) else view))
    read = found[Mode.NEW] if found[Mode.NEW].rows else found[Mode.ALL]
    change = found[Mode.NEW].rows
    return Looked(change, found[Mode.ALL].rows, read.bytes, times(change))


def _merging(task: Task, inputs: Mapping[str, View]) -> dict[str, float]:
    """Seconds that merging is guessed to have taken on each channel whose content was read.

    Who goes on from what is new on a channel hardly looks at its content, so that does not count. An incremental
    refresh looks up a few keys of the others, and any task some of its own state.
    """
    code = task.variant.code
    looks_up = isinstance(code, Refresh) and code.way == Way.INCREMENTAL
    new = {r.port for r in task.reads if r.mode is Mode.NEW}
    views = {r.port: inputs.get(r.argument) for r in task.reads if r.port not in new}
    return {
        port: merging(view, whole=not looks_up and port not in task.states)
        for port, view in views.items()
        if isinstance(view, Snapshot)
    }


def _size(filled: Filled) -> Size:
    return Size(sum(f.rows for f in filled.files), sum(f.bytes for f in filled.files))


def _schema(task: Task, write: Write, channel: RegisteredChannel) -> tuple[Schema | None, bool]:
    """The schema to hold an output to, and whether it is only what was learnt from blocks.

    What a declared table computes anew decides its own, unless one was declared.
    """
    code = task.variant.code
    if isinstance(code, Refresh) and write.kind is Kind.BASE:
        return (code.schema if write.argument == code.table else None), False
    if channel.declared is not None:
        return channel.declared, False
    return channel.channel.schema, not isinstance(code, Refresh)
