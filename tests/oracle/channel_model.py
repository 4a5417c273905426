"""A model of a channel: blocks written, compacted and collected, and the expected content at each position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

from tidemill.algebra import reference
from tidemill.model.block import (
    INITIAL_POSITION,
    Block,
    BlockKind,
    BlockOrigin,
    ChannelPosition,
    DataFile,
    advance_position,
    link_block,
)
from tidemill.model.change import Append, Patch, Rows, Updates
from tidemill.model.schema import Schema
from tidemill.model.view import DeltaChain, Snapshot, SnapshotDiff, View, build_chain, build_snapshot, list_blocks
from tidemill.retention.compaction import (
    Compaction,
    CompactionLimits,
    MajorCompaction,
    MergeBalance,
    MinorCompaction,
    choose_compaction,
    exclude_files,
    find_sharable_files,
    must_merge,
)
from tidemill.retention.garbage_collection import ReadNeed, find_collectable


class FileAccess(Protocol):
    """Reads and writes files for a channel model."""

    def write(self, rows: Rows, schema: Schema) -> tuple[DataFile, ...]: ...
    def write_view(self, view: Snapshot | DeltaChain) -> tuple[DataFile, ...]: ...
    def find_touched(self, view: Snapshot) -> frozenset[str]: ...
    def rows(self, view: View) -> Rows: ...


@dataclass
class MemoryFiles:
    """Files as lists in memory, read by the reference."""

    files: dict[str, Rows] = field(default_factory=dict)

    def write(self, rows: Rows, schema: Schema) -> tuple[DataFile, ...]:
        """Write at most two rows per file, so that files can be shared."""
        parts = [rows[i : i + 2] for i in range(0, len(rows), 2)]
        names = [f"f{len(self.files) + n}" for n in range(len(parts))]
        self.files.update(zip(names, parts, strict=True))
        return tuple(DataFile(name, len(part), 10 * len(part)) for name, part in zip(names, parts, strict=True))

    def write_view(self, view: Snapshot | DeltaChain) -> tuple[DataFile, ...]:
        return self.write(self.rows(view), view.schema)

    def find_touched(self, view: Snapshot) -> frozenset[str]:
        key = view.deltas[0].updates.key or view.schema.names
        keys = {_build_key(key, row) for delta in view.deltas for row in self._read_block(delta)}
        files = view.base.files if view.base is not None else ()
        if any(isinstance(d.updates, Patch) for d in view.deltas):
            return frozenset(f.path for f in files)
        return frozenset(f.path for f in files if any(_build_key(key, row) in keys for row in self.files[f.path]))

    def rows(self, view: View) -> Rows:
        match view:
            case Snapshot():
                content = self._read_block(view.base) if view.base else []
                for delta in view.deltas:
                    content = reference.merge_rows(delta.updates, content, self._read_block(delta))
                return content
            case DeltaChain():
                first, *others = [self._read_block(d) for d in view.deltas] or [[]]
                for later in others:
                    first = reference.chain_deltas(view.updates, first, later)
                return first
            case SnapshotDiff():
                return reference.diff_contents(view.updates, self.rows(view.before), self.rows(view.after))

    def _read_block(self, block: Block) -> Rows:
        return [dict(row) for f in block.files for row in self.files[f.path]]


def _build_key(names: Sequence[str], row: dict[str, object]) -> tuple[object, ...]:
    return tuple(reference.to_hashable(row[n]) for n in names)


@dataclass
class ChannelModel:
    """One channel: its filled blocks, its cursors, and the content of each position when it was written."""

    updates: Updates
    schema: Schema
    file_access: FileAccess
    limits: CompactionLimits
    blocks: list[Block] = field(default_factory=list)
    content: dict[int, Rows] = field(default_factory=lambda: {0: []})
    cursors: list[int] = field(default_factory=list)
    position: ChannelPosition = INITIAL_POSITION
    last_seq: int = 0

    def __post_init__(self) -> None:
        self._ids = count(1)
        self.blocks.append(Block(0, "c", 0, BlockKind.BASE, self.schema, origin=BlockOrigin.FIRST))

    def skip(self) -> None:
        """Record a cancelled block."""
        self.last_seq += 1

    def add(self, kind: BlockKind, rows: Rows) -> None:
        self.last_seq += 1
        physical = self.updates.build_delta_schema(self.schema) if kind is BlockKind.DELTA else self.schema
        files = self.file_access.write(rows, physical)
        block = Block(next(self._ids), "c", self.last_seq, kind, self.schema, updates=self.updates, files=files)
        before = self.content[self.position.seq]
        self.content[self.last_seq] = (
            reference.merge_rows(self.updates, before, rows) if kind is BlockKind.DELTA else rows
        )
        self.blocks.append(link_block(self.position, block))
        self.position = advance_position(self.position, self.blocks[-1])

    def run_due_compactions(self) -> None:
        """Run due compactions until none is left; reads have paid as much as a new base costs."""
        while (
            compaction := choose_compaction(self.newest(), MergeBalance(1, 1.0, 1.0), self.limits).compaction
        ) is not None:
            self.compact(compaction)

    def compact(self, compaction: Compaction) -> None:
        view = compaction.view
        shared = find_sharable_files(view, self.limits)
        if isinstance(view, Snapshot) and shared and must_merge(view):
            touched_paths = self.file_access.find_touched(view)
            shared = frozenset(f for f in shared if f.path not in touched_paths)
        rest = exclude_files(view, shared)
        written = self.file_access.write_view(rest) if any(b.files for b in list_blocks(rest)) else ()
        self.blocks.append(self._build_block(compaction, (*shared, *written)))

    def _build_block(self, compaction: Compaction, files: tuple[DataFile, ...]) -> Block:
        block = Block(next(self._ids), "c", 0, BlockKind.BASE, self.schema, files=files, origin=BlockOrigin.COMPACTION)
        if isinstance(compaction, MajorCompaction):
            return replace(block, seq=compaction.view.at)
        view = compaction.view
        return replace(block, kind=BlockKind.DELTA, seq=view.upto, since=view.since, updates=self.updates)

    def compact_minor(self, first: int, last: int) -> None:
        """Compact deltas of the newest content, due or not."""
        newest = self.newest()
        deltas = newest.deltas[first : last + 1]
        before = next(b for b in list_blocks(newest) if b.seq == deltas[0].since)
        self.compact(
            MinorCompaction(before, DeltaChain("c", self.schema, self.updates, before.seq, deltas[-1].seq, deltas))
        )

    def compact_major(self) -> None:
        if self.newest().deltas:
            self.compact(MajorCompaction(self.newest()))

    def collect(self) -> None:
        collectable = {b.id for b in find_collectable(self.blocks, self.position.seq, map(ReadNeed, self.cursors))}
        self.blocks = [b for b in self.blocks if b.id not in collectable]

    def newest(self) -> Snapshot:
        return build_snapshot("c", self.schema, self.blocks, self.position.seq)

    def build_change(self, since: int) -> DeltaChain | SnapshotDiff:
        deltas = build_chain("c", self.schema, self.updates, self.blocks, since, self.position.seq)
        before = build_snapshot("c", self.schema, self.blocks, since)
        return deltas or SnapshotDiff(before, self.newest(), self.updates)

    def check(self) -> None:
        """Check that the head and every cursor read the expected content and changes."""
        head = self.position.seq
        for since in {head, *self.cursors}:
            content_before = self.file_access.rows(build_snapshot("c", self.schema, self.blocks, since))
            assert reference.is_same_bag(content_before, self.content[since]), f"the content at {since}"
            changed = reference.merge_rows(
                self.updates, content_before, self.file_access.rows(self.build_change(since))
            )
            assert reference.is_same_bag(changed, self.content[head]), f"the change from {since} to {head}"


def is_append(updates: Updates) -> bool:
    return isinstance(updates, Append)
