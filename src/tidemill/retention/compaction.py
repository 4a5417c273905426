"""What to compact, and which files a compaction can share: decided from blocks, without reading any.

Many small deltas cost a fixed price each: they are *folded*, as in a log-structured store, into deltas of a higher
level, so that a reader meets few however many were written. And rows that merge on reading are paid for by every
reader: once readers have paid as much since the newest base as a new one costs, the content is memoised as one.
Whoever decides so never pays more than about twice what it would have cost to know the future; a channel that nobody
reads is not rewritten for reading's sake. Where somebody waits for reads, and not a run, they are kept quick beyond
that. Both leave every row that need not change in the file where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from tidemill.model.block import Block, File
from tidemill.model.change import Append, Patch
from tidemill.model.view import Chain, Snapshot, blocks_of

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """From when on compaction is worth its price (docs/decisions/0010-compaction.md has the measurements)."""

    fan: int = 8  # deltas of one level that are folded into one of the next
    share: float = 1.0  # of the base's rows; more delta rows than that make a new base, even if nobody reads them
    wait: float = 0.3  # of the time of reading a base; nobody who waits for a read is to wait longer for merging
    floor: int = 100_000  # rows; below, writing the whole content costs about as much as a fold
    small_file: int = 32 * MEGABYTE  # bytes; larger files are shared rather than rewritten


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Prices:
    """Seconds that a reader pays for what is not merged yet, by what was measured (docs/benchmarks.md)."""

    merge: float = 0.1  # of anything at all
    delta: float = 0.02  # each, however small
    row: float = 2e-6  # of a delta
    patch: float = 4e-6  # of a patch, which is applied to many rows
    opened: float = 0.005  # a delta, where only a few keys are looked up
    passed: float = 8e-8  # a row of it
    read: float = 0.05  # of anything at all, merged or not
    byte: float = 1.2e-8  # of a base


PRICES = Prices()


def merging(content: Snapshot, *, whole: bool = True, prices: Prices = PRICES) -> float:
    """Seconds that one reader pays because the deltas of a content are not merged; `whole`: it reads all rows.

    Appended rows are read as they are, wherever they stand.
    """
    deltas = _to_merge(content)
    if not whole:
        return sum(prices.opened + d.rows * prices.passed for d in deltas)
    rows = sum(d.rows * (prices.patch if isinstance(d.updates, Patch) else prices.row) for d in deltas)
    return prices.merge + len(deltas) * prices.delta + rows if deltas else 0.0


def _longer(content: Snapshot, prices: Prices = PRICES) -> float:
    """How much longer reading takes because of what is not merged, as a share of what it would take else."""
    size = content.base.bytes if content.base is not None else 0
    return merging(content, prices=prices) / (prices.read + size * prices.byte)


def _to_merge(content: Snapshot) -> list[Block]:
    return [d for d in content.deltas if d.files and not isinstance(d.updates, Append)]


@dataclass(frozen=True, slots=True)
class Balance:
    """What readers have paid for merging since the newest base, against the price of a new one."""

    reads: int  # that had something to merge
    paid: float  # seconds
    price: float
    asked: int = 0  # reads by somebody who waited, of this base or earlier ones

    def __str__(self) -> str:
        reads = "1 read has" if self.reads == 1 else f"{self.reads} reads have"
        paid = f"{reads} paid {self.paid:.2f} s for merging since the newest base"
        return f"{paid}, and a new one costs {self.price:.2f} s"


@dataclass(frozen=True, slots=True)
class Fold:
    """Make one delta of several; the change begins where `before` ends."""

    before: Block
    view: Chain


@dataclass(frozen=True, slots=True)
class Rebase:
    """Make a base of the newest base and the deltas after it."""

    view: Snapshot


Compaction = Fold | Rebase


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a channel needs first, so that its content is read cheaply; None if nothing. And why."""

    wanted: Compaction | None
    why: str

    def __str__(self) -> str:
        match self.wanted:
            case None:
                return f"not due: {self.why}"
            case Fold():
                return f"due, a fold: {self.why}"
            case Rebase():
                return f"due, a new base: {self.why}"


def worth_a_look(block: Block, limits: Limits = LIMITS) -> bool:
    """May something be due on a channel now that it has this block?

    Small blocks make something due once in `fan` at most: deltas to fold, or bases that newer ones replaced. So whoever
    writes many of them looks as seldom.
    """
    return block.seq % limits.fan == 0 or block.rows * limits.fan >= limits.floor


def judged(content: Snapshot, balance: Balance, limits: Limits = LIMITS) -> Verdict:
    """What is due on a channel, and why that or nothing is."""
    merged, kept = _rows(_to_merge(content)), content.base.rows if content.base is not None else 0
    if merged and balance.paid >= balance.price:
        return Verdict(Rebase(content), str(balance))
    if balance.asked and merged > limits.floor and (longer := _longer(content)) > limits.wait:
        return Verdict(Rebase(content), f"whoever reads it would wait {longer:.0%} longer than for a new base")
    if merged > max(limits.floor, limits.share * kept):
        return Verdict(Rebase(content), f"{merged} rows wait to be merged into {kept}, more than the disk is to hold")
    fold = next(_folds(content, limits), None)
    if fold is None:
        waiting = f"{merged} rows wait to be merged into {kept}: {balance}"
        return Verdict(None, waiting if merged else "nothing to merge")
    many = f"{len(fold.view.deltas)} deltas lie side by side"
    if _rows(blocks_of(content)) <= limits.floor:
        return Verdict(Rebase(content), f"{many}, and so few rows are as quickly written as a base")
    return Verdict(fold, many)


def _folds(content: Snapshot, limits: Limits) -> Iterator[Fold]:
    alike = groupby(content.deltas, key=lambda d: (d.updates, d.schema))
    for _, group in alike:
        stretch = _stretch(tuple(group), limits.fan)
        if stretch:
            yield _fold(content, stretch)


def _fold(content: Snapshot, deltas: tuple[Block, ...]) -> Fold:
    first, last = deltas[0], deltas[-1]
    before = next(b for b in blocks_of(content) if b.seq == first.since)
    view = Chain(content.channel, first.schema, first.updates, before.seq, last.seq, deltas)
    return Fold(before, view)


def _stretch(deltas: tuple[Block, ...], fan: int) -> tuple[Block, ...]:
    """The deltas to fold: side by side, `fan` of them of one level and none of a higher one; lowest level first.

    Levels may come in any order where slots were cancelled. No reader shall meet more than fan * fan even then.
    """
    for level in sorted({_level(d, fan) for d in deltas}):
        for low, group in groupby(deltas, key=partial(_is_within, fan=fan, level=level)):
            stretch = tuple(group)
            if low and sum(_level(d, fan) == level for d in stretch) >= fan:
                return stretch
    return deltas if len(deltas) > fan * fan else ()


def _is_within(delta: Block, *, fan: int, level: int) -> bool:
    return _level(delta, fan) <= level


def _level(delta: Block, fan: int) -> int:
    """How often a delta was folded, judged by how many slots it stands for: fan ** level, or some more."""
    slots, level = delta.seq - (delta.since or 0), 0
    while slots >= fan:
        slots, level = slots // fan, level + 1
    return level


def _rows(blocks: Iterable[Block]) -> int:
    return sum(b.rows for b in blocks)


def sharable(view: Snapshot | Chain, limits: Limits) -> frozenset[File]:
    """Files that could serve the new block as they are, if no delta touches them.

    A single small file is not worth writing again either, if nothing has to be merged into it.
    """
    content = {f for b in blocks_of(view) if b.schema == view.schema and _holds_content(b) for f in b.files}
    large = frozenset(f for f in content if f.bytes >= limits.small_file)
    rest = [f for b in blocks_of(view) for f in b.files if f not in large]
    alone = len(rest) == 1 and rest[0] in content and not must_merge(view)
    return large | frozenset(rest) if alone else large


def _holds_content(block: Block) -> bool:
    return block.since is None or isinstance(block.updates, Append)


def must_merge(view: Snapshot | Chain) -> bool:
    """Do the deltas change rows, rather than add some?"""
    return any(d.files and not isinstance(d.updates, Append) for d in view.deltas)


def without(view: Snapshot | Chain, shared: frozenset[File]) -> Snapshot | Chain:
    """What is left to write of a view when some files are shared."""
    deltas = tuple(_less(d, shared) for d in view.deltas)
    if isinstance(view, Chain):
        return replace(view, deltas=deltas)
    return replace(view, deltas=deltas, base=view.base and _less(view.base, shared))


def _less(block: Block, shared: frozenset[File]) -> Block:
    return replace(block, files=tuple(f for f in block.files if f not in shared))


def file_count(view: Snapshot | Chain, limits: Limits) -> int:
    """Into how many files to write a view: large enough to be shared the next time, and some for each core to read."""
    size = sum(b.bytes for b in blocks_of(view))
    return max(1, size // (2 * limits.small_file), min(limits.fan, size // (4 * MEGABYTE)))
