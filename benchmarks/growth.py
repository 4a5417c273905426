"""Growth over hundreds of small refreshes with automatic maintenance.

The content of the inputs does not grow: users move and events are corrected, but their numbers are bounded. Any growth
is therefore a residue of refreshing.
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
MAX_EVENTS = 4000
"""Maximum number of events: after this number, new events correct the oldest ones."""
CITY_TOTALS = """
    SELECT city, count(*) AS n, sum(amount) AS amount FROM events JOIN users ON events.user = users.user GROUP BY city
"""
FLOWS = ("totals", "cities")
"""The same totals twice: by a programmed task, which counts an event in the city of its user at the time of arrival,
and declared, where all events move with their user."""
WARM_UP = 50
"""Refreshes that are not measured: the JVM still gets faster."""
WINDOW = 50
SLACK = 1.25
"""`flat`: the last refreshes take at most this multiple of the first ones (medians of `WINDOW`, after the warm-up), and
the maxima of files and bytes of the second half are at most this multiple of those of the first half. In a short run
inputs and history still fill up: the figures need about 200 refreshes."""


@dataclass(frozen=True, slots=True)
class Point:
    """The state after a refresh."""

    refresh: int
    seconds: float  # of its runs and of the maintenance after them
    files: int
    disk_bytes: int  # of blocks
    catalog_bytes: int
    compactions: int


def measure(directory: Path, *, refreshes: int, on_progress: Callable[[str], None]) -> dict[str, Any]:
    """Insert and run repeatedly; returns medians, sizes over time, and whether all of them stayed flat.

    There is no server and no explicit maintenance: only the maintenance that runs start themselves.
    """
    mill = Tidemill(
        directory,
        Settings(maintenance=MaintenanceSettings(run_history=HISTORY)),
        Project((_build_workflow().build_spec(),)),
    )
    try:
        mill.apply()
        points = []
        for point in _run_refreshes(mill, directory, refreshes):
            points.append(point)
            if point.refresh % WINDOW == 0:
                on_progress(_format_point(point))
        _check_totals(mill, refreshes)
        return summarize_points(points)
    finally:
        mill.close()


def _format_point(point: Point) -> str:
    sizes = f"{point.files} files of {point.disk_bytes} bytes, {point.catalog_bytes} bytes of catalog"
    return f"{point.refresh} refreshes: {sizes}, the last one in {point.seconds:.2f} s"


def _build_workflow() -> tm.Workflow:
    workflow = tm.Workflow("growth")
    workflow.input("events", "id bigint, user bigint, amount bigint", key="id")
    workflow.input("users", "user bigint, city string", key="user")
    workflow.table("totals", "city string, n bigint, amount bigint", updates=tm.Increment(("city",), ("n", "amount")))
    workflow.task(totals)
    workflow.sql("cities", CITY_TOTALS)
    return workflow


def totals(events: tm.New, users: tm.All) -> tm.Delta:
    """The amounts that new events add to the totals of their users' cities."""
    located = events.join(users, "user")
    return located.groupBy("city").agg(F.count("id").alias("n"), F.sum("amount").alias("amount"))


def _run_refreshes(mill: Tidemill, directory: Path, refreshes: int) -> Iterator[Point]:
    mill.insert(
        "users", _write_file(directory / "first.jsonl", ({"user": u, "city": _choose_city(u, 0)} for u in range(USERS)))
    )
    last_run_id = 0
    for number in range(1, refreshes + 1):
        mill.insert("users", _write_file(directory / "users.jsonl", _generate_changes(number)))
        mill.insert("events", _write_file(directory / "events.jsonl", _generate_events(number)))
        began = time.perf_counter()
        for flow in FLOWS:
            mill.run(flow)
            mill.maintenance.finish()
        seconds = time.perf_counter() - began
        newest = mill.catalog.runs.list(limit=HISTORY)
        compactions = sum(r.id > last_run_id and r.kind is RunKind.COMPACTION for r in newest)
        last_run_id = newest[0].id
        yield Point(number, seconds, *_measure_disk_use(directory), _read_catalog_bytes(directory), compactions)


def _choose_city(user: int, number: int) -> str:
    return f"city{(user * 7 + number) % CITIES}"


def _generate_changes(number: int) -> Iterator[dict[str, Any]]:
    users = ((number * CHANGES + n) % USERS for n in range(CHANGES))
    return ({"user": user, "city": _choose_city(user, number)} for user in users)


def _generate_events(number: int) -> Iterator[dict[str, Any]]:
    """New events; an event that replaces an older one has another amount."""
    ids = ((number * EVENTS + n) % MAX_EVENTS for n in range(EVENTS))
    return ({"id": event, "user": event * 13 % USERS, "amount": number + event} for event in ids)


def _write_file(path: Path, rows: Iterator[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _measure_disk_use(directory: Path) -> tuple[int, int]:
    """The number of block files, and their bytes."""
    sizes = [p.stat().st_size for p in (directory / ".tidemill" / "blocks").rglob("*") if p.is_file()]
    return len(sizes), sum(sizes)


def _read_catalog_bytes(directory: Path) -> int:
    """Size of the database file; its log has a constant size, which would hide growth."""
    return (directory / ".tidemill" / "catalog.db").stat().st_size


def _check_totals(mill: Tidemill, refreshes: int) -> None:
    """Check the content: `totals` counts every arrival, `cities` every event once, in the current city of its user."""
    counts = [sum(row["n"] for row in mill.rows(table)) for table in FLOWS]
    expected_counts = [refreshes * EVENTS, min(refreshes * EVENTS, MAX_EVENTS)]
    assert counts == expected_counts, f"{counts} counted, {expected_counts} expected"
    homes = {row["user"]: row["city"] for row in mill.rows("users")}
    expected = Counter[str]()
    for row in mill.rows("events"):
        expected[homes[row["user"]]] += row["amount"]
    amounts = {row["city"]: row["amount"] for row in mill.rows("cities")}
    assert amounts == expected, f"{amounts} found, {dict(expected)} expected"


def summarize_points(points: Sequence[Point]) -> dict[str, Any]:
    """The figures of the whole run, and whether each was flat by the rule of `SLACK`."""
    half = len(points) // 2
    timed = points[min(WARM_UP, half // 2) :]
    window = min(WINDOW, max(1, len(timed) // 2))
    times = [median(p.seconds for p in part) for part in (timed[:window], timed[-window:])]
    measures = [
        _compare_halves("refresh_s", *times),
        _compare_halves("files", *_find_maxima([p.files for p in points], half)),
        _compare_halves("disk_bytes", *_find_maxima([p.disk_bytes for p in points], half)),
        _compare_halves("catalog_bytes", *_find_maxima([p.catalog_bytes for p in points], half)),
    ]
    return {
        "refreshes": len(points),
        "compactions": sum(p.compactions for p in points),
        "flat": all(m["flat"] for m in measures),
        "measures": measures,
        "along": [asdict(p) for p in points if p.refresh % WINDOW == 0 or p.refresh == len(points)],
    }


def _compare_halves(name: str, begin: float, end: float) -> dict[str, Any]:
    ratio = end / begin
    return {
        "measure": name,
        "begin": round(begin, 4),
        "end": round(end, 4),
        "ratio": round(ratio, 3),
        "flat": ratio <= SLACK,
    }


def _find_maxima(sizes: Sequence[int], half: int) -> tuple[int, int]:
    """The maxima of the first and of the second half."""
    return max(sizes[:half] or sizes), max(sizes[half:])
