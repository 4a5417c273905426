"""`/channels/…`: one channel, its contents and their provenance."""

from dataclasses import dataclass

from tidemill.app.wiring import Tidemill
from tidemill.display import columns
from tidemill.display.formatting import format_age, format_count, format_utc, to_timestamp
from tidemill.display.table import Column, TableCell, link_flow, select_columns
from tidemill.errors import NotFound
from tidemill.model.block import Block, BlockState
from tidemill.model.channel import ChannelRole
from tidemill.model.run import Run
from tidemill.model.schema import Field
from tidemill.model.time import Version
from tidemill.model.units import format_size
from tidemill.runtime.inspect.status import ChannelConsumer, ReflectedVersions
from tidemill.ui.actions import PageActions
from tidemill.ui.context import PageContext, open_frame
from tidemill.ui.elements import ActionButton, FactList, PageHeading, add_box, add_section, run_off_loop
from tidemill.ui.explanation import ExplanationView
from tidemill.ui.health import judge_health
from tidemill.ui.sample import NewestRowsView, add_sample, read_newest_rows
from tidemill.ui.snapshot import ProjectSnapshot
from tidemill.ui.table import ValueTable

BLOCKS = 50
"""Newest blocks that are shown."""
RUNS = 20

SCHEMA: tuple[Column[Field], ...] = (
    Column("column", lambda f, _: f.name),
    Column("type", lambda f, _: f.type),
    Column("nullable", lambda f, _: "yes" if f.nullable else "no"),
)

REFLECTED: tuple[Column[ReflectedVersions], ...] = (
    Column("pathway", lambda r, _: " › ".join(r.pathway)),
    Column(">versions", lambda r, _: len(r.versions)),
    Column("newest version", lambda r, _: format_utc(to_timestamp(r.latest_version))),
    Column("newest", lambda r, now: format_age(to_timestamp(r.latest_version), now)),
    Column("oldest", lambda r, now: format_age(to_timestamp(r.versions[0]), now)),
)


def _show_lag(consumer: ChannelConsumer) -> TableCell:
    if not consumer.behind:
        return TableCell("all read", tone="fresh")
    return TableCell(f"{format_count(consumer.behind)} unread", tone="waiting")


CONSUMER: tuple[Column[ChannelConsumer], ...] = (
    Column("flow", lambda c, _: link_flow(c.flow)),
    Column("task", lambda c, _: c.task),
    Column("reads", lambda c, _: c.modes),
    Column("lag", lambda c, _: _show_lag(c)),
)


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


def read_channel_blocks(mill: Tidemill, name: str) -> ChannelBlocks:
    blocks = mill.catalog.blocks.list(name, limit=BLOCKS)
    runs: dict[int, Run] = {}
    for number in {b.run for b in blocks if b.run is not None}:
        try:
            runs[number] = mill.catalog.runs.read(number)
        except NotFound:
            continue
    return ChannelBlocks(tuple(blocks), runs)


async def show_channel(context: PageContext, name: str) -> None:
    with open_frame(context, "", name):
        snapshot = await context.feed.read_snapshot()
        problem = f"No channel {name!r} is registered."
        if await context.find_or_report(lambda: snapshot.channel_index.get(name), problem):
            await context.keep_refreshing(_ChannelPage(context, name).refresh_page)


class _ChannelPage:
    def __init__(self, context: PageContext, name: str) -> None:
        self._context = context
        self._name = name
        self._stored = ChannelBlocks((), {})
        self._heading = PageHeading("channel", name)
        with self._heading.actions:
            self._compact = ActionButton("Compact", lambda: PageActions(context).compact_channel(name))
        self._facts = FactList()
        with add_box("columns"):
            with add_section("Schema"):
                self._schema = ValueTable("Schema", SCHEMA, empty="known once the first block is written")
            with add_section("Reflects", "versions of inputs, by pathway"):
                self._reflects = ValueTable("Provenance", REFLECTED, empty="nothing yet")
        with add_box("columns"):
            with add_section("Read by"):
                self._consumers = ValueTable("Consumers", CONSUMER, empty="no task")
            with add_section("Sample"):
                add_sample(context, name)
        self._newest = NewestRowsView()
        self._explanation = ExplanationView(context, name)
        with add_section("Blocks", f"the newest {BLOCKS}"):
            self._blocks = ValueTable("Blocks", self._build_block_columns(), empty="no block yet")
        with add_section("Runs that write it"):
            self._runs = ValueTable("Runs", columns.RUN, empty="no run yet")

    async def refresh_page(self, snapshot: ProjectSnapshot, now: float) -> None:
        status = snapshot.channel_index.get(self._name)
        if status is None:
            raise NotFound(f"channel {self._name!r} is no longer registered")
        stored = await run_off_loop(read_channel_blocks, self._context.mill, self._name)
        self._compact.set_visibility(self._context.get_viewer().can_act_somewhere)
        registered, declared = status.registered, status.registered.channel
        self._heading.show_health(judge_health(snapshot, now).channels.get(self._name))
        self._facts.show_values(
            role=declared.role,
            workflow=registered.workflow,
            updates=columns.format_updates(declared.updates),
            head=registered.head.seq,
            rows=format_count(status.rows),
            blocks=format_count(registered.blocks),
            rows_in_blocks=format_count(registered.rows),
            size=format_size(registered.bytes),
            reservations=registered.reserved,
            event_time=_format_watermark(status.watermark, now),
        )
        self._schema.show_values(declared.schema or ())
        self._reflects.show_values(status.reflects, now)
        self._consumers.show_values(status.consumers)
        self._newest.show_rows(await run_off_loop(read_newest_rows, self._context.mill, stored.blocks))
        self._stored = stored
        self._blocks.show_values(stored.blocks, now)
        self._runs.show_values(sorted(stored.runs.values(), key=lambda r: -r.id)[:RUNS], now)
        if declared.role is ChannelRole.DERIVED:
            await self._explanation.show_explanation()

    def _build_block_columns(self) -> tuple[Column[Block], ...]:
        return (
            *select_columns(columns.BLOCK, "block", "seq", "kind", "state", "rows", "size"),
            Column("visible", lambda block, now: format_age(self._stored.find_visible_time(block), now)),
            *select_columns(columns.BLOCK, "made by", "run"),
            Column("", lambda block, _: self._build_pin_cell(block)),
        )

    def _build_pin_cell(self, block: Block) -> TableCell:
        can_pin = self._context.get_viewer().can_act(None)  # storage is shared by all workflows
        if not can_pin or block.state is not BlockState.FILLED:
            return TableCell("")
        return TableCell("Unpin" if block.pinned else "Pin", action=lambda: PageActions(self._context).pin_block(block))


def _format_watermark(edge: Version | None, now: float) -> str | None:
    timestamp = to_timestamp(edge)
    return None if timestamp is None else f"watermark {format_utc(timestamp)}, {format_age(timestamp, now)}"
