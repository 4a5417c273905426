"""Recurring jobs: each day's data is prepared once, and read by that day's, that week's and that month's reports."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import DatasetFactory, Submission
from tidemill.retention.eviction.history import ProducedDataset

USUAL = {
    "extract": (200.0, 500.0),
    "clean": (400.0, 300.0),
    "daily": (90.0, 30.0),
    "rolling": (60.0, 20.0),
    "report": (40.0, 1.0),
}
SOURCES = 3
BACKFILL = 0.02  # daily probability that a report changes and is recomputed for the last four weeks


def generate_recurring(random: Random, count: int) -> list[Submission]:
    factory = DatasetFactory(random, USUAL)
    submissions: list[Submission] = []
    version, day = 0, 0
    while len(submissions) < count:
        submissions.append(_create_report(factory, "daily", version, day, 1))
        submissions.append(_create_report(factory, "rolling", version, day, 7))
        if day % 7 == 6:
            submissions.append(_create_report(factory, "weekly", version, day, 7))
        if day % 28 == 27:
            submissions.append(_create_report(factory, "monthly", version, day, 28))
        if random.random() < BACKFILL:
            version += 1
            submissions += [
                _create_report(factory, "daily", version, past, 1) for past in range(max(0, day - 27), day + 1)
            ]
        day += 1
    return submissions[:count]


def _create_report(factory: DatasetFactory, series: str, version: int, day: int, length: int) -> Submission:
    """A report over the days up to one; `version` is that of the code that summarises a day."""
    days = range(max(0, day - length + 1), day + 1)
    summaries = [_create_summary(factory, source, past, version) for past in days for source in range(SOURCES)]
    parents = [factory.create_dataset("rolling", series, summaries)] if series == "rolling" else summaries
    return factory.create_submission(series, [factory.create_dataset("report", f"{series} {day}", parents)])


def _create_summary(factory: DatasetFactory, source: int, day: int, version: int) -> ProducedDataset:
    clean = factory.create_dataset("clean", "", [factory.create_dataset("extract", (source, day))])
    return factory.create_dataset("daily", version, [clean])
