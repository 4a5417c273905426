"""A channel's whole life in small: blocks written, compacted and collected, and what each point should hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

from tidemill.algebra import reference
from tidemill.model.block import BEGINNING, Block, File, Kind, Origin, Position, advance, place
from tidemill.model.change import Append, Patch, Rows, Updates
from tidemill.model.schema import Schema
from tidemill.model.view import Chain, Difference, Snapshot, View, blocks_of, chain, snapshot
from tidemill.retention.compaction import (
    Balance,
    Compaction,
    Fold,
    Limits,
    Rebase,
    judged,
    must_merge,
    sharable,
    without,
)
from tidemill.retention.garbage_collection import Need, collectable


class Hands(Protocol):
    """Who reads and writes files for a house."""

    def write(self, rows: Rows, schema: Schema) -> tuple[File, ...]: ...
    def write_view(self, view: Snapshot | Chain) -> tuple[File, ...]: ...
    def touched(self, view: Snapshot) -> frozenset[str]: ...
    def rows(self, view: View) -> Rows: ...


@dataclass
class Memory:
    """Files that are lists, read as the reference says."""

    files: dict[str, Rows] = field(default_factory=dict)

    def write(self, rows: Rows, schema: Schema) -> tuple[File, ...]:
        """One row a file or two, so that there is something to share."""
        parts = [rows[i : i + 2] for i in range(0, len(rows), 2)]
        names = [f"f{len(self.files) + n}" for n in range(len(parts))]
        self.files.update(zip(names, parts, strict=True))
        return tuple(File(name, len(part), 10 * len(part)) for name, part in zip(names, parts, strict=True))

    def write_view(self, view: Snapshot | Chain) -> tuple[File, ...]:
        return self.write(self.rows(view), view.schema)

    def touched(self, view: Snapshot) -> frozenset[str]:
        key = view.deltas[0].updates.key or view.schema.names
        keys = {_key(key, row) for delta in view.deltas for row in self._of(delta)}
        files = view.base.files if view.base is not None else ()
        if any(isinstance(d.updates, Patch) for d in view.deltas):
            return frozenset(f.path for f in files)
        return frozenset(f.path for f in files if any(_key(key, row) in keys for row in self.files[f.path]))

    def rows(self, view: View) -> Rows:
        match view:
            case Snapshot():
                content = self._of(view.base) if view.base else []
                for delta in view.deltas:
                    content = reference.merge(delta.updates, content, self._of(delta))
                return content
            case Chain():
                first, *others = [self._of(d) for d in view.deltas] or [[]]
                for later in others:
                    first = reference.chain(view.updates, first, later)
                return first
            case Difference():
                return reference.diff(view.updates, self.rows(view.before), self.rows(view.after))

    def _of(self, block: Block) -> Rows:
        return [dict(row) for f in block.files for row in self.files[f.path]]


def _key(names: Sequence[str], row: dict[str, object]) -> tuple[object, ...]:
    return tuple(reference.freeze(row[n]) for n in names)


@dataclass
class House:
    """One channel: its filled blocks, its cursors, and the content that each point had when it was written."""

    updates: Updates
    schema: Schema
    hands: Hands
    limits: Limits
    blocks: list[Block] = field(default_factory=list)
    content: dict[int, Rows] = field(default_factory=lambda: {0: []})
    cursors: list[int] = field(default_factory=list)
    position: Position = BEGINNING
    slots: int = 0

    def __post_init__(self) -> None:
        self._ids = count(1)
        self.blocks.append(Block(0, "c", 0, Kind.BASE, self.schema, origin=Origin.FIRST))

    def skip(self) -> None:
        """A slot was cancelled."""
        self.slots += 1

    def add(self, kind: Kind, rows: Rows) -> None:
        self.slots += 1
        physical = self.updates.delta_schema(self.schema) if kind is Kind.DELTA else self.schema
        files = self.hands.write(rows, physical)
        block = Block(next(self._ids), "c", self.slots, kind, self.schema, updates=self.updates, files=files)
        before = self.content[self.position.seq]
        self.content[self.slots] = reference.merge(self.updates, before, rows) if kind is Kind.DELTA else rows
        self.blocks.append(place(self.position, block))
        self.position = advance(self.position, self.blocks[-1])

    def tidy(self) -> None:
        """What is due, until nothing is; readers have paid as much as a new base costs."""
        while (wanted := judged(self.newest(), Balance(1, 1.0, 1.0), self.limits).wanted) is not None:
            self.compact(wanted)

    def compact(self, wanted: Compaction) -> None:
        view = wanted.view
        shared = sharable(view, self.limits)
        if isinstance(view, Snapshot) and shared and must_merge(view):
            touched = self.hands.touched(view)
            shared = frozenset(f for f in shared if f.path not in touched)
        rest = without(view, shared)
        written = self.hands.write_view(rest) if any(b.files for b in blocks_of(rest)) else ()
        self.blocks.append(self._made(wanted, (*shared, *written)))

    def _made(self, wanted: Compaction, files: tuple[File, ...]) -> Block:
        made = Block(next(self._ids), "c", 0, Kind.BASE, self.schema, files=files, origin=Origin.COMPACTION)
        if isinstance(wanted, Rebase):
            return replace(made, seq=wanted.view.at)
        view = wanted.view
        return replace(made, kind=Kind.DELTA, seq=view.upto, since=view.since, updates=self.updates)

    def fold(self, first: int, last: int) -> None:
        """Fold deltas of the newest content, whether or not that is due."""
        newest = self.newest()
        deltas = newest.deltas[first : last + 1]
        before = next(b for b in blocks_of(newest) if b.seq == deltas[0].since)
        self.compact(Fold(before, Chain("c", self.schema, self.updates, before.seq, deltas[-1].seq, deltas)))

    def rebase(self) -> None:
        if self.newest().deltas:
            self.compact(Rebase(self.newest()))

    def collect(self) -> None:
        gone = {b.id for b in collectable(self.blocks, self.position.seq, map(Need, self.cursors))}
        self.blocks = [b for b in self.blocks if b.id not in gone]

    def newest(self) -> Snapshot:
        return snapshot("c", self.schema, self.blocks, self.position.seq)

    def change(self, since: int) -> Chain | Difference:
        deltas = chain("c", self.schema, self.updates, self.blocks, since, self.position.seq)
        before = snapshot("c", self.schema, self.blocks, since)
        return deltas or Difference(before, self.newest(), self.updates)

    def check(self) -> None:
        """The head and every cursor read as they always did, and lead to the same."""
        head = self.position.seq
        for since in {head, *self.cursors}:
            held = self.hands.rows(snapshot("c", self.schema, self.blocks, since))
            assert reference.same(held, self.content[since]), f"the content at {since}"
            changed = reference.merge(self.updates, held, self.hands.rows(self.change(since)))
            assert reference.same(changed, self.content[head]), f"the change from {since} to {head}"


def is_append(updates: Updates) -> bool:
    return isinstance(updates, Append)
