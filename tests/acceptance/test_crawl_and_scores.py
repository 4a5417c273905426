"""The running example of asynchronous workflows, on Spark: crawled pages joined with click scores, in both modes.

Synchronously the output follows every change of a score; asynchronously new pages are given the current scores,
and keep them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import functions as F
from tests.acceptance.conftest import Open, name_values
from tests.model.provenance_rules import is_consistent

import tidemill as tm
from tidemill.app.wiring import Tidemill
from tidemill.model.time import Timeline
from tidemill.runtime.runs.views import ChannelViews

ARRIVALS: list[tuple[str, str, list[tuple[object, ...]]]] = [
    ("Sun 3pm", "crawl", []),
    ("Mon 1am", "scores", [("a.com", 18)]),
    ("Mon 8am", "crawl", [("a.com/x", "d1")]),
    ("Tue 1am", "scores", [("a.com", 21), ("b.com", 7)]),
    ("Tue 11am", "crawl", [("a.com/y", "d2")]),
    ("Tue 5pm", "crawl", [("b.com/r", "d3")]),
    ("Wed 1am", "scores", [("a.com", 22), ("b.com", 14)]),
    ("Wed 2pm", "crawl", [("a.com/z", "d4"), ("b.com/s", "d5")]),
]

SCHEMAS = {"crawl": "url string, digest string", "scores": "site string, score bigint"}

Rows = set[tuple[object, ...]]

SYNCHRONOUS: dict[str, Rows] = {
    "Mon 8am": {("a.com/x", "d1", 18)},
    "Tue 11am": {("a.com/x", "d1", 21), ("a.com/y", "d2", 21)},
    "Tue 5pm": {("a.com/x", "d1", 21), ("a.com/y", "d2", 21), ("b.com/r", "d3", 7)},
    "Wed 2pm": {
        *[("a.com/x", "d1", 22), ("a.com/y", "d2", 22), ("b.com/r", "d3", 14)],
        *[("a.com/z", "d4", 22), ("b.com/s", "d5", 14)],
    },
}

NEW: dict[str, Rows] = {
    "Mon 8am": {("a.com/x", "d1", 18)},
    "Tue 11am": {("a.com/y", "d2", 21)},
    "Tue 5pm": {("b.com/r", "d3", 7)},
    "Wed 2pm": {("a.com/z", "d4", 22), ("b.com/s", "d5", 14)},
}

REFLECTED: dict[str, tuple[set[str], set[str]]] = {
    "Mon 8am": ({"Mon 8am"}, {"Mon 1am"}),
    "Tue 11am": ({"Tue 11am"}, {"Mon 1am", "Tue 1am"}),
    "Tue 5pm": ({"Tue 5pm"}, {"Mon 1am", "Tue 1am"}),
    "Wed 2pm": ({"Wed 2pm"}, {"Mon 1am", "Tue 1am", "Wed 1am"}),
}


def workflow() -> tm.Workflow:
    wf = tm.Workflow("crawl")
    wf.input("crawl", SCHEMAS["crawl"])
    wf.input("scores", SCHEMAS["scores"], key="site")
    wf.table("page_scores", "url string, digest string, score bigint")

    @wf.task
    def page_scores(crawl: tm.New, scores: tm.All) -> tm.Delta:
        pages = crawl.withColumn("site", F.substring_index("url", "/", 1))
        return pages.join(scores, "site").select("url", "digest", "score")

    wf.sql(
        "ranked",
        "SELECT c.url, c.digest, s.score FROM crawl c JOIN scores s ON substring_index(c.url, '/', 1) = s.site",
    )
    return wf


class Scenario:
    """Arrivals in order; after each crawl both tables are refreshed."""

    def __init__(self, mill: Tidemill) -> None:
        self.mill = mill
        self.names: dict[int, str] = {}

    def replay(self) -> Iterator[str]:
        for when, channel, rows in ARRIVALS:
            self.mill.insert(channel, name_values(SCHEMAS[channel], rows))
            self.names[self.mill.catalog.channels.list_versions({channel: 0})[channel][-1]] = when
            if channel == "crawl" and "scores" in self._list_arrived():
                for table in ("page_scores", "ranked"):
                    self.mill.run(table)
                yield when
            elif when == "Mon 1am":  # the initial content: an empty crawl and the first scores
                for table in ("page_scores", "ranked"):
                    self.mill.run(table)

    def content(self, table: str) -> Rows:
        return {tuple(row.values()) for row in self.mill.rows(table)}

    def change(self, table: str) -> Rows:
        head = self.mill.catalog.channels.read(table).head.seq
        rows = self.mill.engine.read_rows(ChannelViews(self.mill.catalog, {}).build_change(table, head - 1, head))
        return {(row["url"], row["digest"], row["score"]) for row in rows}

    def read_reflected(self, table: str) -> tuple[set[str], set[str]]:
        reached = self.mill.catalog.channels.read(table).head.provenance
        crawl, scores = ({self.names[v] for v in reached[(c,)]} for c in ("crawl", "scores"))
        return crawl, scores

    def is_consistent(self, table: str) -> bool:
        versions = self.mill.catalog.channels.list_versions(dict.fromkeys(SCHEMAS, 0))
        now = max(v for channel_versions in versions.values() for v in channel_versions) + 1
        return is_consistent(self.mill.catalog.channels.read(table).head.provenance, Timeline(versions, now))

    def _list_arrived(self) -> set[str]:
        return {channel for when, channel, _ in ARRIVALS if when in self.names.values()}


@pytest.mark.long
def test_both_joins_produce_the_rows_of_the_example(open_mill: Open) -> None:
    scenario = Scenario(open_mill(workflow()))
    stamped: Rows = set()
    for when in scenario.replay():
        stamped |= NEW[when]
        assert scenario.content("ranked") == SYNCHRONOUS[when]
        assert scenario.read_reflected("ranked")[1] == {
            max(REFLECTED[when][1], key=list(scenario.names.values()).index)
        }
        assert scenario.is_consistent("ranked")
        assert (scenario.change("page_scores"), scenario.content("page_scores")) == (NEW[when], stamped)
        assert scenario.read_reflected("page_scores") == REFLECTED[when]
        assert scenario.is_consistent("page_scores") == (when == "Mon 8am")
