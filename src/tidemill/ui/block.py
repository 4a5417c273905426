"""`/blocks/…`: one block, its sources and the blocks derived from it, over several steps."""

from dataclasses import dataclass

from tidemill.display import columns
from tidemill.display.formatting import format_count, format_plural
from tidemill.display.table import Column, format_channel_url, link_block
from tidemill.model.block import Block
from tidemill.model.units import format_size
from tidemill.runtime.inspect.block_trace import MAX_TRACE_DEPTH
from tidemill.ui import elements
from tidemill.ui.context import PageContext, open_frame
from tidemill.ui.elements import run_off_loop
from tidemill.ui.snapshot import ProjectSnapshot
from tidemill.ui.table import ValueTable

DEPTHS = (1, 2, 5, 20)


@dataclass(frozen=True, slots=True)
class TracedBlock:
    """A block of a trace, its step, and its neighbours in the step before."""

    block: Block
    step: int
    neighbours: tuple[int, ...]


def build_columns(neighbours: str) -> tuple[Column[TracedBlock], ...]:
    """The columns of a table of traced blocks; `neighbours` is the heading of their blocks in the step before."""
    return (
        Column(">step", lambda t, _: t.step),
        Column(">block", lambda t, _: link_block(t.block.id)),
        *(_lift_column(c) for c in columns.BLOCK[1:-2]),
        Column(neighbours, lambda t, _: [str(number) for number in t.neighbours]),
    )


def _lift_column(column: Column[columns.AnyBlock]) -> Column[TracedBlock]:
    return Column(column.heading, lambda traced, now: column.read(traced.block, now))


async def show_block(context: PageContext, number: int, depth: int = 1) -> None:
    with open_frame(context, "", f"Block {number}"):
        block = await context.find_or_report(lambda: context.mill.catalog.blocks.read(number), "")
        if block is not None:
            page = _BlockPage(context, block, min(max(depth, 1), MAX_TRACE_DEPTH))
            await context.keep_refreshing(page.refresh_page)


class _BlockPage:
    def __init__(self, context: PageContext, block: Block, depth: int) -> None:
        self._context = context
        self._number = block.id
        self._depth = depth
        with elements.add_box("heading"):
            elements.add_link(block.channel, format_channel_url(block.channel), "eyebrow")
            with elements.add_box("heading-line"):
                elements.HtmlText(f"Block {block.id}", "h1")
                self._state = elements.StateBadge(str(block.state))
        self._facts = elements.FactList()
        choices = ((format_plural(n, "step"), f"/blocks/{block.id}?depth={n}", n == depth) for n in DEPTHS)
        elements.add_choices("Depth of the trace", choices)
        self._limit = elements.HtmlText("There are more blocks; open one of these.", "p", "banner")
        with elements.add_section("Derived from"):
            self._sources = ValueTable("Sources", build_columns("for"), empty="it was inserted, or its sources expired")
        with elements.add_section("Blocks derived from it"):
            self._derived = ValueTable("Derived blocks", build_columns("from"), empty="none yet")

    async def refresh_page(self, _snapshot: ProjectSnapshot, now: float) -> None:
        trace = await run_off_loop(self._context.mill.trace, self._number, self._depth)
        block = trace.block
        self._state.show_state(str(block.state))
        self._facts.show_values(
            channel=block.channel,
            sequence_number=block.seq,
            kind=block.kind if block.since is None else f"{block.kind} since {block.since}",
            made_by=columns.format_origin(block),
            rows=format_count(block.rows),
            size=format_size(block.bytes),
            identity=block.identity,
        )
        self._limit.set_visibility(not trace.is_complete)
        sources = [TracedBlock(b, s.step, s.derived_blocks) for s in trace.sources for b in s.blocks]
        self._sources.show_values(sources, now)
        derived = zip(trace.derived, trace.derivations, strict=True)
        self._derived.show_values([TracedBlock(b, d.step, d.source_blocks) for b, d in derived], now)
