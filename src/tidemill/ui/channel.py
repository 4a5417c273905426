"""`/channels/…`: one channel, what it holds, and where that came from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tidemill.app.wiring import Tidemill
from tidemill.errors import NotFound
from tidemill.model.block import Block, BlockState
from tidemill.model.change import Updates
from tidemill.model.channel import Role
from tidemill.model.run import Run
from tidemill.model.time import Version
from tidemill.ui import rows
from tidemill.ui.actions import Actions
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Facts, Heading, box, section
from tidemill.ui.explanation import ExplanationView
from tidemill.ui.formatting import NONE, ago, clock, count, moment, size
from tidemill.ui.health import judged
from tidemill.ui.newest import Newest, newest
from tidemill.ui.page_frame import frame
from tidemill.ui.sample import sample
from tidemill.ui.table import Cell, Table

BLOCKS = 50
"""Newest blocks that are shown."""
RUNS = 20


@dataclass(frozen=True, slots=True)
class Held:
    """A channel's newest blocks, and the runs that wrote them, by number; forgotten runs are missing."""

    blocks: tuple[Block, ...]
    runs: dict[int, Run]

    def visible(self, block: Block) -> float | None:
        """When a block became visible: a derived one has no version, but its run ended in that moment."""
        if block.version is not None:
            return moment(block.version)
        if block.state not in (BlockState.FILLED, BlockState.COLLECTED):
            return None
        run = self.runs.get(block.run) if block.run is not None else None
        return run.finished if run is not None else None

    def writers(self) -> list[Run]:
        return sorted(self.runs.values(), key=lambda r: -r.id)[:RUNS]


def held(mill: Tidemill, name: str) -> Held:
    blocks = mill.catalog.blocks(name, limit=BLOCKS)
    runs: dict[int, Run] = {}
    for number in {b.run for b in blocks if b.run is not None}:
        try:
            runs[number] = mill.catalog.run(number)
        except NotFound:
            continue
    return Held(tuple(blocks), runs)


async def channel(desk: Desk, name: str) -> None:
    with frame(desk, "", name):
        snapshot = await desk.feed.snapshot()
        if await desk.found(lambda: snapshot.channel(name), f"No channel {name!r} is registered."):
            pins = await off_loop(partial(desk.viewer().may, None))
            await desk.keep(_Channel(desk, name, pins=pins).show)


class _Channel:
    def __init__(self, desk: Desk, name: str, *, pins: bool) -> None:
        """`pins`: may whoever looks pin blocks? What one keeps, others do without: that needs a right on all."""
        self._desk = desk
        self._pins = pins
        self._name = name
        self._heading = Heading("channel", name)
        self._facts = Facts(
            (
                "role",
                "workflow",
                "updates",
                "head",
                "rows",
                "blocks",
                "rows in blocks",
                "size",
                "slots held",
                "event time",
            )
        )
        with box("columns"):
            with section("Schema"):
                self._schema = Table("Schema", rows.SCHEMA, empty="known once the first block is written")
            with section("Reflects", "versions of inputs, by pathway"):
                self._reflects = Table("Provenance", rows.REFLECTED, empty="nothing yet")
        with box("columns"):
            with section("Read by"):
                self._consumers = Table("Consumers", rows.CONSUMER, empty="no task")
            with section("Sample"):
                sample(desk, name)
        self._newest = Newest()
        self._explanation = ExplanationView(desk, name)
        with section("Blocks", f"the newest {BLOCKS}"):
            self._blocks = Table("Blocks", (*rows.BLOCK, ""), empty="no block yet")
        with section("Runs that write it"):
            self._runs = Table("Runs", rows.RUN, empty="no run yet")

    async def show(self) -> None:
        snapshot = await self._desk.feed.snapshot()
        now = await off_loop(self._desk.mill.catalog.now)
        known = snapshot.channel(self._name)
        if known is None:
            raise NotFound(f"channel {self._name!r} is no longer registered")
        holds = await off_loop(held, self._desk.mill, self._name)
        registered, declared = known.registered, known.registered.channel
        self._heading.show(judged(snapshot, now).channels.get(self._name))
        self._facts.show(
            role=declared.role,
            workflow=registered.workflow,
            updates=_updates(declared.updates),
            head=registered.head.seq,
            rows=NONE if known.rows is None else count(known.rows),
            blocks=count(registered.blocks),
            rows_in_blocks=count(registered.rows),
            size=size(registered.bytes),
            slots_held=registered.reserved,
            event_time=_settled(known.edge, now),
        )
        self._schema.show(rows.of_schema(declared.schema))
        self._reflects.show([rows.of_reflected(r, now) for r in known.reflects])
        self._consumers.show([rows.of_consumer(c) for c in known.consumers])
        self._newest.show(await off_loop(newest, self._desk.mill, holds.blocks))
        self._blocks.show([(*rows.of_block(b, holds.visible(b), now), self._pin(b)) for b in holds.blocks])
        self._runs.show([rows.of_run(r, now) for r in holds.writers()])
        if declared.role is Role.DERIVED:
            await self._explanation.show()

    def _pin(self, block: Block) -> Cell:
        if not self._pins or block.state is not BlockState.FILLED:
            return Cell("")
        return Cell("Unpin" if block.pinned else "Pin", act=lambda: Actions(self._desk).pin_block(block))


def _settled(edge: Version | None, now: float) -> str:
    return NONE if edge is None else f"settled up to {clock(moment(edge))}, {ago(moment(edge), now)}"


def _updates(value: Updates) -> str:
    return f"{value.name} ({', '.join(value.key)})" if value.key else value.name
