"""`/servers`: who executes runs."""

from __future__ import annotations

from collections import Counter

from tidemill.model.run import UNDER_WAY
from tidemill.ui import rows
from tidemill.ui.context import Desk
from tidemill.ui.elements import Text, section
from tidemill.ui.page_frame import frame
from tidemill.ui.table import Table
from tidemill.ui.threads import off_loop


async def servers(desk: Desk) -> None:
    with frame(desk, "/servers", "Servers"):
        Text("Servers", "h1")
        with section("On this catalog"):
            table = Table("Servers", rows.SERVER, empty="no server yet; start one with: tidemill up")

        async def show() -> None:
            snapshot = await desk.feed.snapshot()
            found = await off_loop(desk.mill.catalog.servers)
            busy = Counter(r.owner for r in snapshot.status.active if r.state in UNDER_WAY and not r.backfill)
            now = await off_loop(desk.mill.catalog.now)
            table.show([rows.of_server(s, busy[s.name], now) for s in found])

        await desk.keep(show)
