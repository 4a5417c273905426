"""Whether anything grows: hundreds of small refreshes in a row, with the upkeep that goes on by itself.

What the inputs hold does not grow: users move and events are corrected, but there are never more than so many. So
whatever grows all the same is what refreshing leaves behind.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import functions as F

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import MaintenanceSettings, Settings
from tidemill.app.wiring import Tidemill
from tidemill.model.run import RunKind

HISTORY = 40
EVENTS, CHANGES, USERS, CITIES = 40, 10, 500, 20
HELD = 4000
"""Events that there are at most: after so many, those that come correct the oldest."""
CITY_TOTALS = """
    SELECT city, count(*) AS n, sum(amount) AS amount FROM events JOIN users ON events.user = users.user GROUP BY city
"""
FLOWS = ("totals", "cities")
"""The same totals twice: by a programmed task, for which an event counts where its user lived when it came, and
declared, where they all move along with the user."""
WARM_UP = 50
"""Refreshes that are not judged: the JVM still gets faster."""
WINDOW = 50
SLACK = 1.25
"""`flat`: the last refreshes take at most so many times the first (medians of `WINDOW`, after the warm-up), and the
second half of the run never has more than so many times the files and bytes of the first half. In a short run
inputs and history still fill up: the figures need about 200 refreshes."""


@dataclass(frozen=True, slots=True)
class Point:
    """How it stood after a refresh."""

    refresh: int
    seconds: float  # of its runs, and of the upkeep after them
    files: int
    disk_bytes: int  # of blocks
    catalog_bytes: int
    compactions: int


def measure(directory: Path, *, refreshes: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Insert and run so many times; returns medians, sizes along the way, and whether all of it stayed flat.

    Nobody tidies, and there is no server that would: runs alone have upkeep done.
    """
    mill = Tidemill(
        directory, Settings(maintenance=MaintenanceSettings(run_history=HISTORY)), Project((_workflow().declared(),))
    )
    try:
        mill.apply()
        points = []
        for point in _refreshed(mill, directory, refreshes):
            points.append(point)
            if point.refresh % WINDOW == 0:
                tell(_said(point))
        _check(mill, refreshes)
        return judged(points)
    finally:
        mill.close()


def _said(point: Point) -> str:
    sizes = f"{point.files} files of {point.disk_bytes} bytes, {point.catalog_bytes} bytes of catalog"
    return f"{point.refresh} refreshes: {sizes}, the last one in {point.seconds:.2f} s"


def _workflow() -> tm.Workflow:
    workflow = tm.Workflow("growth")
    workflow.input("events", "id bigint, user bigint, amount bigint", key="id")
    workflow.input("users", "user bigint, city string", key="user")
    workflow.table("totals", "city string, n bigint, amount bigint", updates=tm.Increment(("city",), ("n", "amount")))
    workflow.task(totals)
    workflow.sql("cities", CITY_TOTALS)
    return workflow


def totals(events: tm.New, users: tm.All) -> tm.Delta:
    """What the new events add to the totals of their users' cities."""
    located = events.join(users, "user")
    return located.groupBy("city").agg(F.count("id").alias("n"), F.sum("amount").alias("amount"))


def _refreshed(mill: Tidemill, directory: Path, refreshes: int) -> Iterator[Point]:
    mill.insert("users", _file(directory / "first.jsonl", ({"user": u, "city": _city(u, 0)} for u in range(USERS))))
    seen = 0
    for number in range(1, refreshes + 1):
        mill.insert("users", _file(directory / "users.jsonl", _changes(number)))
        mill.insert("events", _file(directory / "events.jsonl", _events(number)))
        began = time.perf_counter()
        for flow in FLOWS:
            mill.run(flow)
            mill.maintenance.finish()
        taken = time.perf_counter() - began
        newest = mill.catalog.list_runs(limit=HISTORY)
        compactions = sum(r.id > seen and r.kind is RunKind.COMPACTION for r in newest)
        seen = newest[0].id
        yield Point(number, taken, *_on_disk(directory), _catalog_bytes(directory), compactions)


def _city(user: int, number: int) -> str:
    return f"city{(user * 7 + number) % CITIES}"


def _changes(number: int) -> Iterator[dict[str, Any]]:
    users = ((number * CHANGES + n) % USERS for n in range(CHANGES))
    return ({"user": user, "city": _city(user, number)} for user in users)


def _events(number: int) -> Iterator[dict[str, Any]]:
    """Those that come where others were have another amount."""
    ids = ((number * EVENTS + n) % HELD for n in range(EVENTS))
    return ({"id": event, "user": event * 13 % USERS, "amount": number + event} for event in ids)


def _file(path: Path, rows: Iterator[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _on_disk(directory: Path) -> tuple[int, int]:
    """Files of blocks, and their bytes."""
    sizes = [p.stat().st_size for p in (directory / ".tidemill" / "blocks").rglob("*") if p.is_file()]
    return len(sizes), sum(sizes)


def _catalog_bytes(directory: Path) -> int:
    """The database alone: the log beside it has one size throughout, and would hide what grows."""
    return (directory / ".tidemill" / "catalog.db").stat().st_size


def _check(mill: Tidemill, refreshes: int) -> None:
    """Flat, and right: every event was counted as often as it came, and now, once, where its user lives."""
    counted = [sum(row["n"] for row in mill.rows(table)) for table in FLOWS]
    wanted = [refreshes * EVENTS, min(refreshes * EVENTS, HELD)]
    assert counted == wanted, f"{counted} counted, {wanted} expected"
    homes = {row["user"]: row["city"] for row in mill.rows("users")}
    expected = Counter[str]()
    for row in mill.rows("events"):
        expected[homes[row["user"]]] += row["amount"]
    found = {row["city"]: row["amount"] for row in mill.rows("cities")}
    assert found == expected, f"{found} found, {dict(expected)} expected"


def judged(points: Sequence[Point]) -> dict[str, Any]:
    """The figures of the whole run, and by the rule of `SLACK` whether each was flat."""
    half = len(points) // 2
    timed = points[min(WARM_UP, half // 2) :]
    window = min(WINDOW, max(1, len(timed) // 2))
    times = [median(p.seconds for p in part) for part in (timed[:window], timed[-window:])]
    measures = [
        _measure("refresh_s", *times),
        _measure("files", *_most([p.files for p in points], half)),
        _measure("disk_bytes", *_most([p.disk_bytes for p in points], half)),
        _measure("catalog_bytes", *_most([p.catalog_bytes for p in points], half)),
    ]
    return {
        "refreshes": len(points),
        "compactions": sum(p.compactions for p in points),
        "flat": all(m["flat"] for m in measures),
        "measures": measures,
        "along": [asdict(p) for p in points if p.refresh % WINDOW == 0 or p.refresh == len(points)],
    }


def _measure(name: str, begin: float, end: float) -> dict[str, Any]:
    ratio = end / begin
    return {
        "measure": name,
        "begin": round(begin, 4),
        "end": round(end, 4),
        "ratio": round(ratio, 3),
        "flat": ratio <= SLACK,
    }


def _most(sizes: Sequence[int], half: int) -> tuple[int, int]:
    """The most of the first half, and of the second."""
    return max(sizes[:half] or sizes), max(sizes[half:])
