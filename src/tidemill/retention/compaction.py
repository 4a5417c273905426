"""Decides what to compact, and which files a compaction can share, from blocks alone, without reading any.

Each small delta has a fixed cost: *minor compactions* merge them, as in a log-structured store, into deltas of a higher
level, so that a reader meets few however many were written. And every reader pays for rows that merge on reading: once
readers have paid as much since the newest base as a new one costs, a *major compaction* writes the content as a new
base. This online rule never pays more than about twice the cost of the optimal offline decision; a channel that is
never read is not rewritten for readers. Where users, and not runs, wait for reads, reads are kept fast beyond that.
Both leave every row that need not change in its file.
"""

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
    """Limits from which compaction is worth its cost (docs/decisions/0010-compaction.md has the measurements)."""

    fan: int = 8  # deltas of one level that are compacted into one of the next
    share: float = 1.0  # of the base's rows; more delta rows than that cause a new base, even without readers
    max_slowdown: float = 0.3  # of the time of reading a base; bound on the extra time of a user's read for merging
    floor: int = 100_000  # rows; below, writing the full content costs about as much as a minor compaction
    small_file: int = 32 * MEGABYTE  # bytes; larger files are shared rather than rewritten


LIMITS = CompactionLimits()


@dataclass(frozen=True, slots=True)
class ReadPrices:
    """Seconds that a reader pays for unmerged deltas, as measured (docs/benchmarks.md)."""

    merge: float = 0.1  # constant of a merge
    delta: float = 0.02  # per delta
    row: float = 2e-6  # per row of a delta
    patch: float = 4e-6  # per row of a patch, which is applied to many rows
    lookup_delta: float = 0.005  # per delta, where only a few keys are looked up
    lookup_row: float = 8e-8  # per row of such a delta
    read: float = 0.05  # constant of a read, merged or not
    byte: float = 1.2e-8  # per byte of a base


PRICES = ReadPrices()


def estimate_merge_seconds(content: Snapshot, *, full: bool = True) -> float:
    """Estimate the seconds that one reader pays because a content's deltas are not merged; `full`: it reads all rows.

    Appended rows are read as they are, without merging.
    """
    deltas = _list_unmerged(content)
    if not full:
        return sum(PRICES.lookup_delta + d.rows * PRICES.lookup_row for d in deltas)
    rows = sum(d.rows * (PRICES.patch if isinstance(d.updates, Patch) else PRICES.row) for d in deltas)
    return PRICES.merge + len(deltas) * PRICES.delta + rows if deltas else 0.0


def _compute_slowdown(content: Snapshot) -> float:
    """Return the extra time of reading unmerged deltas, as a share of the time of reading a base."""
    size = content.base.bytes if content.base is not None else 0
    return estimate_merge_seconds(content) / (PRICES.read + size * PRICES.byte)


def _list_unmerged(content: Snapshot) -> list[Block]:
    return [d for d in content.deltas if d.files and not isinstance(d.updates, Append)]


@dataclass(frozen=True, slots=True)
class MergeBalance:
    """The cost that readers have paid for merging since the newest base, and the cost of a new one."""

    reads: int  # that had deltas to merge
    paid_seconds: float  # seconds
    rewrite_seconds: float
    user_reads: int = 0  # reads by waiting users, of this base or earlier ones

    def __str__(self) -> str:
        reads = "1 read has" if self.reads == 1 else f"{self.reads} reads have"
        paid = f"{reads} paid {self.paid_seconds:.2f} s for merging since the newest base"
        return f"{paid}, and a new one costs {self.rewrite_seconds:.2f} s"


@dataclass(frozen=True, slots=True)
class MinorCompaction:
    """Merge several deltas into one; the change begins where `before` ends."""

    before: Block
    view: DeltaChain


@dataclass(frozen=True, slots=True)
class MajorCompaction:
    """Merge the newest base and the deltas after it into a base."""

    view: Snapshot


Compaction = MinorCompaction | MajorCompaction


@dataclass(frozen=True, slots=True)
class CompactionVerdict:
    """The first compaction that a channel needs to be read cheaply, or None; and the reason."""

    compaction: Compaction | None
    reason: str

    def __str__(self) -> str:
        if self.compaction is None:
            return f"not due: {self.reason}"
        kind = "minor" if isinstance(self.compaction, MinorCompaction) else "major"
        return f"due, a {kind} compaction: {self.reason}"


def is_check_due(block: Block, limits: CompactionLimits = LIMITS) -> bool:
    """Tell whether a compaction may be due on a channel now that it has this block.

    Small blocks make one due at most once in `fan`: deltas to compact, or replaced bases to collect. So a writer of
    many small blocks checks as seldom.
    """
    return block.seq % limits.fan == 0 or block.rows * limits.fan >= limits.floor


def choose_compaction(content: Snapshot, balance: MergeBalance, limits: CompactionLimits = LIMITS) -> CompactionVerdict:
    """Decide which compaction is due on a channel, and why."""
    delta_rows, base_rows = _count_rows(_list_unmerged(content)), content.base.rows if content.base is not None else 0
    if delta_rows and balance.paid_seconds >= balance.rewrite_seconds:
        return CompactionVerdict(MajorCompaction(content), str(balance))
    slowdown = _compute_slowdown(content)
    if balance.user_reads and delta_rows > limits.floor and slowdown > limits.max_slowdown:
        reason = f"a read would take {slowdown:.0%} longer than with a new base"
        return CompactionVerdict(MajorCompaction(content), reason)
    pending = f"{delta_rows} rows wait to be merged into {base_rows}"
    if delta_rows > max(limits.floor, limits.share * base_rows):
        return CompactionVerdict(MajorCompaction(content), f"{pending}, over the disk limit")
    minor = next(_list_minor_compactions(content, limits), None)
    if minor is None:
        return CompactionVerdict(None, f"{pending}: {balance}" if delta_rows else "nothing to merge")
    reason = f"{len(minor.view.deltas)} adjacent deltas"
    if _count_rows(list_blocks(content)) <= limits.floor:
        return CompactionVerdict(MajorCompaction(content), f"{reason}, and with so few rows a base costs the same")
    return CompactionVerdict(minor, reason)


def _list_minor_compactions(content: Snapshot, limits: CompactionLimits) -> Iterator[MinorCompaction]:
    groups = groupby(content.deltas, key=lambda d: (d.updates, d.schema))
    for _, group in groups:
        stretch = _find_stretch(tuple(group), limits.fan)
        if stretch:
            yield _build_minor_compaction(content, stretch)


def _build_minor_compaction(content: Snapshot, deltas: tuple[Block, ...]) -> MinorCompaction:
    first, last = deltas[0], deltas[-1]
    before = next(b for b in list_blocks(content) if b.seq == first.since)
    view = DeltaChain(content.channel, first.schema, first.updates, before.seq, last.seq, deltas)
    return MinorCompaction(before, view)


def _find_stretch(deltas: tuple[Block, ...], fan: int) -> tuple[Block, ...]:
    """Find the deltas to compact: adjacent, `fan` of them of one level and none of a higher one; lowest level first.

    Levels may come in any order where reservations were cancelled. Even then no reader meets more than fan * fan.
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
    """Return how often a delta was compacted, by the sequence numbers that it covers: at least fan ** level."""
    width, level = delta.seq - (delta.since or 0), 0
    while width >= fan:
        width, level = width // fan, level + 1
    return level


def _count_rows(blocks: Iterable[Block]) -> int:
    return sum(b.rows for b in blocks)


def find_sharable_files(view: Snapshot | DeltaChain, limits: CompactionLimits) -> frozenset[DataFile]:
    """Find files that the new block could reuse, if no delta touches them: large ones, or the only one to write."""
    content = {f for b in list_blocks(view) if b.schema == view.schema and _has_content(b) for f in b.files}
    large = frozenset(f for f in content if f.bytes >= limits.small_file)
    rest = [f for b in list_blocks(view) for f in b.files if f not in large]
    alone = len(rest) == 1 and rest[0] in content and not must_merge(view)
    return large | frozenset(rest) if alone else large


def _has_content(block: Block) -> bool:
    return block.since is None or isinstance(block.updates, Append)


def must_merge(view: Snapshot | DeltaChain) -> bool:
    """Tell whether the deltas change rows, rather than only add some."""
    return any(d.files and not isinstance(d.updates, Append) for d in view.deltas)


def exclude_files(view: Snapshot | DeltaChain, shared: frozenset[DataFile]) -> Snapshot | DeltaChain:
    """Return the rest of a view that must be written when some files are shared."""
    deltas = tuple(_drop_files(d, shared) for d in view.deltas)
    if isinstance(view, DeltaChain):
        return replace(view, deltas=deltas)
    return replace(view, deltas=deltas, base=view.base and _drop_files(view.base, shared))


def _drop_files(block: Block, shared: frozenset[DataFile]) -> Block:
    return replace(block, files=tuple(f for f in block.files if f not in shared))


def compute_file_count(view: Snapshot | DeltaChain, limits: CompactionLimits) -> int:
    """Return the number of files for a view: large enough to be shared next time, and several for each core to read."""
    size = sum(b.bytes for b in list_blocks(view))
    return max(1, size // (2 * limits.small_file), min(limits.fan, size // (4 * MEGABYTE)))
