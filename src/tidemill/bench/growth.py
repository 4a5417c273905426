"""Whether anything grows: hundreds of small refreshes in a row, with compaction, collection and forgetting."""

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
from tidemill.app import Tidemill
from tidemill.project import Project
from tidemill.settings import Settings, UpkeepSettings

HISTORY = 40
EVENTS, CHANGES, USERS, CITIES = 40, 10, 500, 20
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
second half of the run never has more than so many times the files and catalog bytes of the first half. In a
short run the catalog still fills up with the history that is kept: the figures need about 200 refreshes."""


@dataclass(frozen=True, slots=True)
class Point:
    """How it stood after a refresh."""

    refresh: int
    seconds: float  # of the run and the tidying after it
    files: int
    catalog_bytes: int
    compactions: int
    collected: int


def measure(directory: Path, *, refreshes: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Insert, run and tidy so many times; returns medians, sizes along the way, and whether all of it stayed flat."""
    upkeep = UpkeepSettings(automatic=False, history=HISTORY)
    mill = Tidemill(directory, Settings(upkeep=upkeep), Project((_workflow().declared(),)))
    try:
        mill.apply()
        points = []
        for point in _refreshed(mill, directory, refreshes):
            points.append(point)
            if point.refresh % WINDOW == 0:
                tell(f"{point.refresh} refreshes: {point.files} files, {point.catalog_bytes} bytes of catalog")
        _check(mill, refreshes)
        return judged(points)
    finally:
        mill.close()


def _workflow() -> tm.Workflow:
    workflow = tm.Workflow("growth")
    workflow.input("events", "id bigint, user bigint, amount bigint")
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
    for number in range(1, refreshes + 1):
        mill.insert("users", _file(directory / "users.jsonl", _changes(number)))
        mill.insert("events", _file(directory / "events.jsonl", _events(number)))
        began = time.perf_counter()
        for flow in FLOWS:
            mill.run(flow)
        done = mill.tidy()
        taken = time.perf_counter() - began
        files = sum(1 for _ in mill.store.listing())
        made = len(done.folded) + len(done.rebased)
        yield Point(number, taken, files, _catalog_bytes(directory), made, done.collected.blocks)


def _city(user: int, number: int) -> str:
    return f"city{(user * 7 + number) % CITIES}"


def _changes(number: int) -> Iterator[dict[str, Any]]:
    users = ((number * CHANGES + n) % USERS for n in range(CHANGES))
    return ({"user": user, "city": _city(user, number)} for user in users)


def _events(number: int) -> Iterator[dict[str, Any]]:
    first = number * EVENTS
    return ({"id": first + n, "user": (first + n) * 13 % USERS, "amount": n} for n in range(EVENTS))


def _file(path: Path, rows: Iterator[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _catalog_bytes(directory: Path) -> int:
    """The database alone: the log beside it has one size throughout, and would hide what grows."""
    return (directory / ".tidemill" / "catalog.db").stat().st_size


def _check(mill: Tidemill, refreshes: int) -> None:
    """Flat, and right: every event was counted once, and where its user lives now."""
    counted = [sum(row["n"] for row in mill.rows(table)) for table in FLOWS]
    stored = mill.read("events").count()
    assert {*counted, stored} == {refreshes * EVENTS}, f"{counted} counted, {stored} stored"
    homes = {row["user"]: row["city"] for row in mill.rows("users")}
    expected = Counter[str]()
    for row in mill.rows("events"):
        expected[homes[row["user"]]] += row["amount"]
    found = {row["city"]: row["amount"] for row in mill.rows("cities")}
    assert found == expected, f"{found} found, {dict(expected)} expected"


def judged(points: Sequence[Point]) -> dict[str, Any]:
    """The figures of the whole run, and by the rule of `SLACK` whether it was flat."""
    half = len(points) // 2
    timed = points[min(WARM_UP, half // 2) :]
    window = min(WINDOW, max(1, len(timed) // 2))
    first, last = (median(p.seconds for p in part) for part in (timed[:window], timed[-window:]))
    ratios = {
        "time_ratio": last / first,
        "files_ratio": _growth([p.files for p in points], half),
        "catalog_ratio": _growth([p.catalog_bytes for p in points], half),
    }
    return {
        "refreshes": len(points),
        "first_s": round(first, 4),
        "last_s": round(last, 4),
        **{name: round(ratio, 3) for name, ratio in ratios.items()},
        "compactions": sum(p.compactions for p in points),
        "collected": sum(p.collected for p in points),
        "flat": max(ratios.values()) <= SLACK,
        "along": [asdict(p) for p in points if p.refresh % WINDOW == 0 or p.refresh == len(points)],
    }


def _growth(sizes: Sequence[int], half: int) -> float:
    """The most of the second half against the most of the first."""
    return max(sizes[half:]) / max(sizes[:half] or sizes)
