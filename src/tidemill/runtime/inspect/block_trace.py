"""Traces a block to its sources and its results, over any number of derivation steps."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tidemill.model.block import Block, BlockKind, BlockOrigin
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import ChannelRead

MAX_TRACED_BLOCKS = 1000
"""Blocks in one direction after which a trace goes no further; the last step is complete."""

MAX_TRACE_DEPTH = 100


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A channel that a block's task read, and the known blocks that were consumed."""

    channel: str
    since: int | None  # None: the full content up to `upto`
    upto: int
    blocks: tuple[Block, ...]
    expired: bool = False  # some of the consumed blocks have expired
    step: int = 1  # derivation steps to the traced block
    derived_blocks: tuple[int, ...] = ()  # the blocks that were derived from it in this step


@dataclass(frozen=True, slots=True)
class BlockDerivation:
    """A block derived from the traced one: by how many steps, and from which blocks of the step before."""

    block: int
    step: int
    source_blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockTrace:
    """One block, its sources, and the blocks derived from it, both in the order of their steps."""

    block: Block
    sources: tuple[TraceSource, ...]
    derived: tuple[Block, ...]
    derivations: tuple[BlockDerivation, ...]  # one for each block of `derived`
    is_complete: bool = True  # False: there are more blocks within the depth than a trace follows


def trace_block(catalog: CatalogReader, block: int, depth: int = 1) -> BlockTrace:
    """Trace a block `depth` steps upstream and downstream. A compaction is a step upstream."""
    traced = catalog.blocks.read(block)
    sources: list[TraceSource] = []
    derived: dict[int, Block] = {}
    derivations: list[BlockDerivation] = []

    def step_upstream(step: int, blocks: Sequence[Block]) -> Iterable[Block]:
        found = _merge_spans(step, ((b.id, s) for b in blocks for s in _find_merged_sources(catalog, b)))
        sources.extend(found)
        return [b for source in found for b in source.blocks]

    def step_downstream(step: int, blocks: Sequence[Block]) -> Iterable[Block]:
        made = [(b.id, m) for b in blocks for m in _find_made_blocks(catalog, b) if m.id not in derived]
        new = {m.id: m for _, m in made if m.id != block}
        derived.update(new)
        derivations.extend(
            BlockDerivation(number, step, tuple(source for source, m in made if m.id == number)) for number in new
        )
        return new.values()

    is_upstream_complete = _walk_steps(traced, step_upstream, depth)
    is_complete = _walk_steps(traced, step_downstream, depth) and is_upstream_complete
    return BlockTrace(traced, tuple(sources), tuple(derived.values()), tuple(derivations), is_complete)


def _walk_steps(start: Block, follow: Callable[[int, Sequence[Block]], Iterable[Block]], depth: int) -> bool:
    """Follow a step from each block once, breadth first; False if there are too many blocks for the whole depth."""
    level, seen = [start], {start.id}
    for step in range(1, depth + 1):
        if len(seen) > MAX_TRACED_BLOCKS:
            return False
        found = {b.id: b for b in follow(step, level)}
        level = [b for number, b in found.items() if number not in seen]
        seen |= found.keys()
        if not level:
            break
    return True


def _merge_spans(step: int, found: Iterable[tuple[int, TraceSource]]) -> list[TraceSource]:
    """Merge equal spans: several blocks of one run have the same sources."""
    spans: dict[tuple[str, int | None, int], TraceSource] = {}
    for derived, source in found:
        span = (source.channel, source.since, source.upto)
        known = spans.get(span, source)
        spans[span] = replace(known, step=step, derived_blocks=(*known.derived_blocks, derived))
    return list(spans.values())


def find_sources(catalog: CatalogReader, block: Block) -> tuple[TraceSource, ...]:
    """Find the sources of a block, one step upstream."""
    if block.run is None or block.origin is not BlockOrigin.RUN:
        return ()
    readings = [r for r in catalog.runs.list_reads(block.run) if r.task == block.task]
    return tuple(_build_source(catalog, r) for r in readings)


def _find_merged_sources(catalog: CatalogReader, block: Block) -> tuple[TraceSource, ...]:
    """Find the sources of a block; those of a compacted one are the blocks that it merges, as they were written."""
    if block.origin is not BlockOrigin.COMPACTION:
        return find_sources(catalog, block)
    written = catalog.blocks.list_visible(block.channel, block.since or 0, block.seq)
    blocks = list(_drop_replaced(written)) if block.since is None else written
    complete = _is_chain(blocks, block.since or 0, block.seq)
    return (TraceSource(block.channel, block.since, block.seq, tuple(blocks), expired=not complete),)


def _drop_replaced(blocks: Sequence[Block]) -> Iterator[Block]:
    """Drop the blocks before the newest base, which it replaces."""
    bases = [b.seq for b in blocks if b.kind is BlockKind.BASE]
    return (b for b in blocks if not bases or b.seq >= bases[-1])


def _build_source(catalog: CatalogReader, reading: ChannelRead) -> TraceSource:
    channel, since, upto = reading.channel, reading.since, reading.upto
    if since is None:
        content = catalog.blocks.read_base_and_deltas(channel, upto)
        return TraceSource(channel, None, upto, tuple(content), expired=_get_last_seq(content, 0) != upto)
    blocks = catalog.blocks.list_visible(channel, since, upto)
    return TraceSource(channel, since, upto, tuple(blocks), expired=not _is_chain(blocks, since, upto))


def _is_chain(blocks: Sequence[Block], since: int, upto: int) -> bool:
    """Whether the blocks lead from `since`, or from a base, to `upto` without a gap."""
    starts = [b.since for b in blocks if b.since is not None]
    linked = {since, *(b.seq for b in blocks)}.issuperset(starts)
    return linked and _get_last_seq(blocks, since) == upto


def _get_last_seq(blocks: Sequence[Block], before: int) -> int:
    return blocks[-1].seq if blocks else before


def _find_made_blocks(catalog: CatalogReader, block: Block) -> tuple[Block, ...]:
    return tuple(
        written
        for reading in catalog.runs.list_block_reads(block.channel, block.seq)
        for written in catalog.blocks.list_written(reading.run)
        if written.task == reading.task
    )
