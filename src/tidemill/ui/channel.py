"""`/channels/…`: one channel, its contents and their provenance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tidemill.app.wiring import Tidemill
from tidemill.errors import NotFound
from tidemill.model.block import Block, BlockState
from tidemill.model.change import Updates
from tidemill.model.channel import ChannelRole
from tidemill.model.run import Run
from tidemill.model.time import Version
from tidemill.ui import rows
from tidemill.ui.actions import PageActions
from tidemill.ui.context import PageContext
from tidemill.ui.elements import FactList, PageHeading, add_box, add_section, run_off_loop
from tidemill.ui.explanation import ExplanationView
from tidemill.ui.formatting import MISSING, format_age, format_count, format_size, format_utc, to_timestamp
from tidemill.ui.health import judge_health
from tidemill.ui.newest import NewestRowsView, read_newest_rows
from tidemill.ui.page_frame import open_frame
from tidemill.ui.sample import add_sample
from tidemill.ui.table import LiveTable, TableCell

BLOCKS = 50
"""Newest blocks that are shown."""
RUNS = 20


@dataclass(frozen=True, slots=True)
class ChannelBlocks:
    """A channel's newest blocks, and the runs that wrote them, by number; expired runs are missing."""

    blocks: tuple[Block, ...]
    runs: dict[int, Run]

    def find_visible_time(self, block: Block) -> float | None:
        """When a block became visible: a derived block has no version, but becomes visible when its run finishes."""
        if block.version is not None:
            return to_timestamp(block.version)
        if block.state not in (BlockState.FILLED, BlockState.COLLECTED):
            return None
        run = self.runs.get(block.run) if block.run is not None else None
        return run.finished if run is not None else None

    def list_writers(self) -> list[Run]:
        return sorted(self.runs.values(), key=lambda r: -r.id)[:RUNS]


def read_channel_blocks(mill: Tidemill, name: str) -> ChannelBlocks:
    blocks = mill.catalog.list_blocks(name, limit=BLOCKS)
    runs: dict[int, Run] = {}
    for number in {b.run for b in blocks if b.run is not None}:
        try:
            runs[number] = mill.catalog.read_run(number)
        except NotFound:
            continue
    return ChannelBlocks(tuple(blocks), runs)


async def show_channel(context: PageContext, name: str) -> None:
    with open_frame(context, "", name):
        snapshot = await context.feed.read_snapshot()
        if await context.find_or_report(lambda: snapshot.find_channel(name), f"No channel {name!r} is registered."):
            pins = await run_off_loop(partial(context.get_viewer().can_act, None))
            await context.keep_refreshing(_ChannelPage(context, name, can_pin=pins).refresh_page)


class _ChannelPage:
    def __init__(self, context: PageContext, name: str, *, can_pin: bool) -> None:
        """`can_pin`: whether the viewer may pin blocks, which needs a right on all workflows, because storage is
        shared.
        """
        self._context = context
        self._can_pin = can_pin
        self._name = name
        self._heading = PageHeading("channel", name)
        self._facts = FactList(
            (
                "role",
                "workflow",
                "updates",
                "head",
                "rows",
                "blocks",
                "rows in blocks",
                "size",
                "reservations",
                "event time",
            )
        )
        with add_box("columns"):
            with add_section("Schema"):
                self._schema = LiveTable("Schema", rows.SCHEMA, empty="known once the first block is written")
            with add_section("Reflects", "versions of inputs, by pathway"):
                self._reflects = LiveTable("Provenance", rows.REFLECTED, empty="nothing yet")
        with add_box("columns"):
            with add_section("Read by"):
                self._consumers = LiveTable("Consumers", rows.CONSUMER, empty="no task")
            with add_section("Sample"):
                add_sample(context, name)
        self._newest = NewestRowsView()
        self._explanation = ExplanationView(context, name)
        with add_section("Blocks", f"the newest {BLOCKS}"):
            self._blocks = LiveTable("Blocks", (*rows.BLOCK, ""), empty="no block yet")
        with add_section("Runs that write it"):
            self._runs = LiveTable("Runs", rows.RUN, empty="no run yet")

    async def refresh_page(self) -> None:
        snapshot = await self._context.feed.read_snapshot()
        now = await run_off_loop(self._context.mill.catalog.read_time)
        status = snapshot.find_channel(self._name)
        if status is None:
            raise NotFound(f"channel {self._name!r} is no longer registered")
        stored = await run_off_loop(read_channel_blocks, self._context.mill, self._name)
        registered, declared = status.registered, status.registered.channel
        self._heading.show_health(judge_health(snapshot, now).channels.get(self._name))
        self._facts.show_values(
            role=declared.role,
            workflow=registered.workflow,
            updates=_format_updates(declared.updates),
            head=registered.head.seq,
            rows=MISSING if status.rows is None else format_count(status.rows),
            blocks=format_count(registered.blocks),
            rows_in_blocks=format_count(registered.rows),
            size=format_size(registered.bytes),
            reservations=registered.reserved,
            event_time=_format_watermark(status.watermark, now),
        )
        self._schema.show_rows(rows.build_schema_rows(declared.schema))
        self._reflects.show_rows([rows.build_reflected_row(r, now) for r in status.reflects])
        self._consumers.show_rows([rows.build_consumer_row(c) for c in status.consumers])
        self._newest.show_rows(await run_off_loop(read_newest_rows, self._context.mill, stored.blocks))
        self._blocks.show_rows(
            [
                (*rows.build_block_row(b, stored.find_visible_time(b), now), self._build_pin_cell(b))
                for b in stored.blocks
            ]
        )
        self._runs.show_rows([rows.build_run_row(r, now) for r in stored.list_writers()])
        if declared.role is ChannelRole.DERIVED:
            await self._explanation.show_explanation()

    def _build_pin_cell(self, block: Block) -> TableCell:
        if not self._can_pin or block.state is not BlockState.FILLED:
            return TableCell("")
        return TableCell("Unpin" if block.pinned else "Pin", action=lambda: PageActions(self._context).pin_block(block))


def _format_watermark(edge: Version | None, now: float) -> str:
    return (
        MISSING
        if edge is None
        else f"watermark {format_utc(to_timestamp(edge))}, {format_age(to_timestamp(edge), now)}"
    )


def _format_updates(value: Updates) -> str:
    return f"{value.name} ({', '.join(value.key)})" if value.key else value.name
