"""Views: how to make the content of a channel, or its change, from whatever blocks exist.

A view is data. The reference evaluator and Spark both turn the same view into rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemill.errors import Collected
from tidemill.model.block import Block, Kind
from tidemill.model.change import Updates
from tidemill.model.schema import Schema


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole content at `at`: a base with the deltas after it merged in. `base` None is the empty base."""

    channel: str
    schema: Schema
    at: int
    base: Block | None
    deltas: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """The change `since -> upto` as a chain of deltas, all of one merge kind; no deltas is the empty change."""

    channel: str
    schema: Schema
    updates: Updates
    since: int
    upto: int
    deltas: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """The change between two snapshots, for want of deltas that lead from one to the other."""

    before: Snapshot
    after: Snapshot
    updates: Updates


View = Snapshot | Chain | Difference


def snapshot(channel: str, schema: Schema, blocks: Iterable[Block], at: int) -> Snapshot:
    """The content of `channel` at sequence number `at`, made from `blocks` (others are not read)."""
    known = list(blocks)
    bases = sorted((b for b in known if b.kind is Kind.BASE and b.seq <= at), key=lambda b: -b.seq)
    for base in bases:
        path = _path(known, base.seq, at)
        if path is not None:
            return Snapshot(channel, schema, at, base, path)
    oldest = min((b.seq for b in known if b.kind is Kind.BASE), default=None)
    hint = f"; the oldest readable point is {oldest}" if oldest is not None else ""
    raise Collected(f"channel {channel} can no longer be read at {at}: its blocks were collected{hint}")


def chain(
    channel: str, schema: Schema, updates: Updates, blocks: Iterable[Block], since: int, upto: int
) -> Chain | None:
    """The change after `since`, up to and including `upto`, as one chain of deltas; None if there is none."""
    path = _path(list(blocks), since, upto)
    if path is None or len({(b.updates, b.schema) for b in path}) > 1:
        return None
    return Chain(channel, schema, path[0].updates if path else updates, since, upto, path)


def _path(blocks: Sequence[Block], since: int, upto: int) -> tuple[Block, ...] | None:
    """The fewest deltas that lead from `since` to `upto`, in order; None if there is a gap."""
    longest: dict[int, Block] = {}
    for block in blocks:
        if block.kind is Kind.DELTA and block.since is not None and since <= block.since:
            best = longest.get(block.seq)
            if best is None or block.since < (best.since or 0):
                longest[block.seq] = block
    path: list[Block] = []
    at = upto
    while at > since:
        if at not in longest:
            return None
        path.append(longest[at])
        at = longest[at].since or 0
    return tuple(reversed(path)) if at == since else None


def blocks_of(view: View) -> tuple[Block, ...]:
    """The blocks whose files a view reads."""
    if isinstance(view, Difference):
        return (*blocks_of(view.before), *blocks_of(view.after))
    base = (view.base,) if isinstance(view, Snapshot) and view.base else ()
    return (*base, *view.deltas)
