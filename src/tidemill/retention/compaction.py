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

from tidemill.model.block import Block, DataFile
from tidemill.model.change import Append, Patch
from tidemill.model.view import DeltaChain, Snapshot, list_blocks

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """From when on compaction is worth its price (docs/decisions/0010-compaction.md has the measurements)."""

    fan: int = 8  # deltas of one level that are folded into one of the next
    share: float = 1.0  # of the base's rows; more delta rows than that make a new base, even if nobody reads them
    wait: float = 0.3  # of the time of reading a base; nobody who waits for a read is to wait longer for merging
    floor: int = 100_000  # rows; below, writing the whole content costs about as much as a fold
    small_file: int = 32 * MEGABYTE  # bytes; larger files are shared rather than rewritten


LIMITS = CompactionLimits()


@dataclass(frozen=True, slots=True)
class ReadPrices:
    """Seconds that a reader pays for what is not merged yet, by what was measured (docs/benchmarks.md)."""

    merge: float = 0.1  # of anything at all
    delta: float = 0.02  # each, however small
    row: float = 2e-6  # of a delta
    patch: float = 4e-6  # of a patch, which is applied to many rows
    opened: float = 0.005  # a delta, where only a few keys are looked up
    passed: float = 8e-8  # a row of it
    read: float = 0.05  # of anything at all, merged or not
    byte: float = 1.2e-8  # of a base


PRICES = ReadPrices()


def estimate_merge_seconds(content: Snapshot, *, whole: bool = True, prices: ReadPrices = PRICES) -> float:
    """Seconds that one reader pays because the deltas of a content are not merged; `whole`: it reads all rows.

    Appended rows are read as they are, wherever they stand.
    """
    deltas = _list_unmerged(content)
    if not whole:
        return sum(prices.opened + d.rows * prices.passed for d in deltas)
    rows = sum(d.rows * (prices.patch if isinstance(d.updates, Patch) else prices.row) for d in deltas)
    return prices.merge + len(deltas) * prices.delta + rows if deltas else 0.0


def _compute_slowdown(content: Snapshot, prices: ReadPrices = PRICES) -> float:
    """How much longer reading takes because of what is not merged, as a share of what it would take else."""
    size = content.base.bytes if content.base is not None else 0
    return estimate_merge_seconds(content, prices=prices) / (prices.read + size * prices.byte)


def _list_unmerged(content: Snapshot) -> list[Block]:
    return [d for d in content.deltas if d.files and not isinstance(d.updates, Append)]


@dataclass(frozen=True, slots=True)
class MergeBalance:
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
class MinorCompaction:
    """Make one delta of several; the change begins where `before` ends."""

    before: Block
    view: DeltaChain


@dataclass(frozen=True, slots=True)
class MajorCompaction:
    """Make a base of the newest base and the deltas after it."""

    view: Snapshot


Compaction = MinorCompaction | MajorCompaction


@dataclass(frozen=True, slots=True)
class CompactionVerdict:
    """What a channel needs first, so that its content is read cheaply; None if nothing. And why."""

    wanted: Compaction | None
    why: str

    def __str__(self) -> str:
        match self.wanted:
            case None:
                return f"not due: {self.why}"
            case MinorCompaction():
                return f"due, a fold: {self.why}"
            case MajorCompaction():
                return f"due, a new base: {self.why}"


def is_check_due(block: Block, limits: CompactionLimits = LIMITS) -> bool:
    """May something be due on a channel now that it has this block?

    Small blocks make something due once in `fan` at most: deltas to fold, or bases that newer ones replaced. So whoever
    writes many of them looks as seldom.
    """
    return block.seq % limits.fan == 0 or block.rows * limits.fan >= limits.floor


def choose_compaction(content: Snapshot, balance: MergeBalance, limits: CompactionLimits = LIMITS) -> CompactionVerdict:
    """What is due on a channel, and why that or nothing is."""
    merged, kept = _count_rows(_list_unmerged(content)), content.base.rows if content.base is not None else 0
    if merged and balance.paid >= balance.price:
        return CompactionVerdict(MajorCompaction(content), str(balance))
    if balance.asked and merged > limits.floor and (longer := _compute_slowdown(content)) > limits.wait:
        return CompactionVerdict(
            MajorCompaction(content), f"whoever reads it would wait {longer:.0%} longer than for a new base"
        )
    if merged > max(limits.floor, limits.share * kept):
        return CompactionVerdict(
            MajorCompaction(content), f"{merged} rows wait to be merged into {kept}, more than the disk is to hold"
        )
    fold = next(_list_minor_compactions(content, limits), None)
    if fold is None:
        waiting = f"{merged} rows wait to be merged into {kept}: {balance}"
        return CompactionVerdict(None, waiting if merged else "nothing to merge")
    many = f"{len(fold.view.deltas)} deltas lie side by side"
    if _count_rows(list_blocks(content)) <= limits.floor:
        return CompactionVerdict(MajorCompaction(content), f"{many}, and so few rows are as quickly written as a base")
    return CompactionVerdict(fold, many)


def _list_minor_compactions(content: Snapshot, limits: CompactionLimits) -> Iterator[MinorCompaction]:
    alike = groupby(content.deltas, key=lambda d: (d.updates, d.schema))
    for _, group in alike:
        stretch = _find_stretch(tuple(group), limits.fan)
        if stretch:
            yield _build_minor_compaction(content, stretch)


def _build_minor_compaction(content: Snapshot, deltas: tuple[Block, ...]) -> MinorCompaction:
    first, last = deltas[0], deltas[-1]
    before = next(b for b in list_blocks(content) if b.seq == first.since)
    view = DeltaChain(content.channel, first.schema, first.updates, before.seq, last.seq, deltas)
    return MinorCompaction(before, view)


def _find_stretch(deltas: tuple[Block, ...], fan: int) -> tuple[Block, ...]:
    """The deltas to fold: side by side, `fan` of them of one level and none of a higher one; lowest level first.

    Levels may come in any order where slots were cancelled. No reader shall meet more than fan * fan even then.
    """
    for level in sorted({_compute_level(d, fan) for d in deltas}):
        for low, group in groupby(deltas, key=partial(_is_within, fan=fan, level=level)):
            stretch = tuple(group)
            if low and sum(_compute_level(d, fan) == level for d in stretch) >= fan:
                return stretch
    return deltas if len(deltas) > fan * fan else ()


def _is_within(delta: Block, *, fan: int, level: int) -> bool:
    return _compute_level(delta, fan) <= level


def _compute_level(delta: Block, fan: int) -> int:
    """How often a delta was folded, judged by how many slots it stands for: fan ** level, or some more."""
    slots, level = delta.seq - (delta.since or 0), 0
    while slots >= fan:
        slots, level = slots // fan, level + 1
    return level


def _count_rows(blocks: Iterable[Block]) -> int:
    return sum(b.rows for b in blocks)


def find_sharable_files(view: Snapshot | DeltaChain, limits: CompactionLimits) -> frozenset[DataFile]:
    """Files that could serve the new block as they are, if no delta touches them.

    A single small file is not worth writing again either, if nothing has to be merged into it.
    """
    content = {f for b in list_blocks(view) if b.schema == view.schema and _has_content(b) for f in b.files}
    large = frozenset(f for f in content if f.bytes >= limits.small_file)
    rest = [f for b in list_blocks(view) for f in b.files if f not in large]
    alone = len(rest) == 1 and rest[0] in content and not must_merge(view)
    return large | frozenset(rest) if alone else large


def _has_content(block: Block) -> bool:
    return block.since is None or isinstance(block.updates, Append)


def must_merge(view: Snapshot | DeltaChain) -> bool:
    """Do the deltas change rows, rather than add some?"""
    return any(d.files and not isinstance(d.updates, Append) for d in view.deltas)


def exclude_files(view: Snapshot | DeltaChain, shared: frozenset[DataFile]) -> Snapshot | DeltaChain:
    """What is left to write of a view when some files are shared."""
    deltas = tuple(_drop_files(d, shared) for d in view.deltas)
    if isinstance(view, DeltaChain):
        return replace(view, deltas=deltas)
    return replace(view, deltas=deltas, base=view.base and _drop_files(view.base, shared))


def _drop_files(block: Block, shared: frozenset[DataFile]) -> Block:
    return replace(block, files=tuple(f for f in block.files if f not in shared))


def compute_file_count(view: Snapshot | DeltaChain, limits: CompactionLimits) -> int:
    """Into how many files to write a view: large enough to be shared the next time, and some for each core to read."""
    size = sum(b.bytes for b in list_blocks(view))
    return max(1, size // (2 * limits.small_file), min(limits.fan, size // (4 * MEGABYTE)))
