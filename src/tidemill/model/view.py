"""Views: plans for reading the content of a channel, or its change, from the existing blocks.

A view is a plain value. The reference evaluator and Spark both turn the same view into rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidemill.errors import GarbageCollected
from tidemill.model.block import Block, BlockKind
from tidemill.model.change import Updates
from tidemill.model.schema import Schema


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The full content at `at`: a base with the deltas after it merged in. `base` None is the empty base."""

    channel: str
    schema: Schema
    at: int
    base: Block | None
    deltas: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class DeltaChain:
    """The change `since -> upto` as a chain of deltas, all of one merge kind; no deltas is the empty change."""

    channel: str
    schema: Schema
    updates: Updates
    since: int
    upto: int
    deltas: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotDiff:
    """The change between two snapshots, computed by diff since no chain of deltas connects them."""

    before: Snapshot
    after: Snapshot
    updates: Updates


@dataclass(frozen=True, slots=True)
class ConvertedDelta:
    """A change whose stored encoding differs from the channel's; readers get it as signed rows."""

    chain: DeltaChain
    before: Snapshot

    @property
    def after(self) -> Snapshot:
        return replace(self.before, at=self.chain.upto, deltas=(*self.before.deltas, *self.chain.deltas))


View = Snapshot | DeltaChain | SnapshotDiff | ConvertedDelta


def build_snapshot(channel: str, schema: Schema, blocks: Iterable[Block], at: int) -> Snapshot:
    """The content of `channel` at sequence number `at`, built from `blocks` only."""
    known = list(blocks)
    bases = sorted((b for b in known if b.kind is BlockKind.BASE and b.seq <= at), key=lambda b: -b.seq)
    for base in bases:
        path = _find_path(known, base.seq, at)
        if path is not None:
            return Snapshot(channel, schema, at, base, path)
    oldest = min((b.seq for b in known if b.kind is BlockKind.BASE), default=None)
    hint = f"; the oldest readable point is {oldest}" if oldest is not None else ""
    raise GarbageCollected(f"channel {channel} can no longer be read at {at}: its blocks were garbage-collected{hint}")


def build_chain(
    channel: str, schema: Schema, updates: Updates, blocks: Iterable[Block], since: int, upto: int
) -> DeltaChain | None:
    """The change after `since`, up to and including `upto`, as one chain of deltas; None if there is none."""
    path = _find_path(list(blocks), since, upto)
    if path is None or len({(b.updates, b.schema) for b in path}) > 1:
        return None
    return DeltaChain(channel, schema, path[0].updates if path else updates, since, upto, path)


def _find_path(blocks: Iterable[Block], since: int, upto: int) -> tuple[Block, ...] | None:
    """The fewest deltas that lead from `since` to `upto`, in order; None if there is a gap.

    Deltas may overlap: compacted ones exist beside the deltas that they replace, until these are garbage-collected.
    """
    deltas = (
        b for b in blocks if b.kind is BlockKind.DELTA and b.since is not None and since <= b.since and b.seq <= upto
    )
    fewest, last = {since: 0}, dict[int, Block]()
    for delta in sorted(deltas, key=lambda b: b.seq):
        steps = fewest.get(delta.since or 0)
        if steps is not None and steps + 1 < fewest.get(delta.seq, steps + 2):
            fewest[delta.seq], last[delta.seq] = steps + 1, delta
    return _trace_path(last, since, upto) if upto in fewest else None


def _trace_path(last: Mapping[int, Block], since: int, upto: int) -> tuple[Block, ...]:
    path: list[Block] = []
    while upto > since:
        path.append(last[upto])
        upto = last[upto].since or 0
    return tuple(reversed(path))


def list_blocks(view: View) -> tuple[Block, ...]:
    """The blocks whose files a view reads."""
    if isinstance(view, SnapshotDiff):
        return (*list_blocks(view.before), *list_blocks(view.after))
    if isinstance(view, ConvertedDelta):
        return list_blocks(view.after)
    base = (view.base,) if isinstance(view, Snapshot) and view.base else ()
    return (*base, *view.deltas)
