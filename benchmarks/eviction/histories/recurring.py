"""Recurring jobs: each day's data is prepared once, and read by that day's, that week's and that month's reports."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import Submission, Workshop
from tidemill.retention.eviction.history import ProducedDataset

USUAL = {
    "extract": (200.0, 500.0),
    "clean": (400.0, 300.0),
    "daily": (90.0, 30.0),
    "rolling": (60.0, 20.0),
    "report": (40.0, 1.0),
}
SOURCES = 3
BACKFILL = 0.02  # how often, a day, a report is changed and computed again for the last four weeks


def recurring(random: Random, count: int) -> list[Submission]:
    shop = Workshop(random, USUAL)
    made: list[Submission] = []
    version, day = 0, 0
    while len(made) < count:
        made.append(_days(shop, "daily", version, day, 1))
        made.append(_days(shop, "rolling", version, day, 7))
        if day % 7 == 6:
            made.append(_days(shop, "weekly", version, day, 7))
        if day % 28 == 27:
            made.append(_days(shop, "monthly", version, day, 28))
        if random.random() < BACKFILL:
            version += 1
            made += [_days(shop, "daily", version, past, 1) for past in range(max(0, day - 27), day + 1)]
        day += 1
    return made[:count]


def _days(shop: Workshop, series: str, version: int, day: int, length: int) -> Submission:
    """A report over the days up to one; `version` is that of the code which summarises a day."""
    days = range(max(0, day - length + 1), day + 1)
    summaries = [_summary(shop, source, past, version) for past in days for source in range(SOURCES)]
    rolled = [shop.make("rolling", series, summaries)] if series == "rolling" else summaries
    return shop.submission(series, [shop.make("report", f"{series} {day}", rolled)])


def _summary(shop: Workshop, source: int, day: int, version: int) -> ProducedDataset:
    clean = shop.make("clean", "", [shop.make("extract", (source, day))])
    return shop.make("daily", version, [clean])
