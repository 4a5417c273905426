"""The three workflows of examples/search_engine: equal to the simulator's, and right on Spark under the planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from math import log
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from benchmarks.modes import find_inconsistent_blocks
from benchmarks.workflows import CRAWL, FEEDBACK, SEARCH
from pyspark.sql import SparkSession
from tests.acceptance.test_applications import EXAMPLES, load_module
from tests.runtime.mill import Mill

from tidemill.app.settings import load_settings
from tidemill.model.provenance import Pathway
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.graph import PlanningGraph
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.workflow_graph import build_graph
from tidemill.spark.engine import SparkEngine

SCENARIOS = {"search": SEARCH, "feedback": FEEDBACK, "crawl": CRAWL}
HOUR = 3600.0
Rows = list[tuple[Any, ...]]


def load_workflow(name: str) -> WorkflowSpec:
    workflow: WorkflowSpec = load_module("search_engine", name).wf.build_spec()
    return workflow


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_simulated_workflow_equals_the_declared_one(name: str) -> None:
    """The same channels, computed from the same inputs by tasks, with the same bounds on the same pathways."""
    live, simulated = build_graph(load_workflow(name)), SCENARIOS[name].graph
    assert _list_inputs(live) == _list_inputs(simulated)
    assert _list_pathways(live) == _list_pathways(simulated)
    assert {c.name: c.bounds for c in live.channels} == {c.name: c.bounds for c in simulated.channels}
    accepted = {c.name: c.accepts for c in live.channels}
    assert all(set(accepted[output.name]) >= output.accepts for output in simulated.channels)


def test_all_three_workflows_form_one_project() -> None:
    files = load_settings(EXAMPLES / "search_engine", {}).workflows
    assert [Path(file).stem for file in files] == list(SCENARIOS)
    names = Counter(c.name for name in SCENARIOS for c in load_workflow(name).channels)
    assert max(names.values()) == 1


def _list_inputs(graph: PlanningGraph) -> dict[str, list[str]]:
    return {channel: sorted(task.reads) for task in graph.tasks for channel in task.writes}


def _list_pathways(graph: PlanningGraph) -> dict[str, list[Pathway]]:
    return {channel: sorted(pathways) for channel, pathways in GraphIndex(graph).pathways.items()}


# The definition of each table, over rows of the channels that its parameters are named after.


def digest(body: str) -> int:
    words = body.split(" ")
    return min(crc32(" ".join(words[n : n + 3]).encode()) for n in range(max(1, len(words) - 2)))


def site(url: str) -> str:
    return url.split("/")[0]


def digests(pages: Rows) -> Rows:
    return [
        (url, site(url), digest(body)) for url, body in dict(pages).items()
    ]  # a later page replaces the one with its url


def pairs(clicks: Rows) -> Rows:
    return list({(user, site(url)) for user, url in clicks})


def users(pairs: Rows) -> Rows:
    return list(Counter(page_site for _, page_site in pairs).items())


def scores(users: Rows) -> Rows:
    return [(page_site, round(log(1 + n), 9)) for page_site, n in users]


def index(digests: Rows, scores: Rows) -> Rows:
    score_by_site = dict(scores)
    return [
        (url, page_digest, score_by_site[page_site])
        for url, page_site, page_digest in digests
        if page_site in score_by_site
    ]


def is_news(links: list[str]) -> bool:
    return any(link.startswith("news") for link in links)


def news(log: Rows) -> Rows:
    return [row for row in log if is_news(row[1])]


def other(log: Rows) -> Rows:
    return [row for row in log if not is_news(row[1])]


def feedback(news: Rows, other: Rows) -> Rows:
    return news + other


def successful(fetched: Rows) -> Rows:
    return [(url, at) for url, at, error, _ in fetched if error is None]


def shingles(fetched: Rows) -> Rows:
    return [(url, at, digest(body)) for url, at, error, body in fetched if error is None]


def links(fetched: Rows) -> Rows:
    newest = {url: body for url, _, error, body in fetched if error is None}
    return [(url, word) for url, body in newest.items() for word in body.split(" ") if "/" in word]


def indegrees(links: Rows) -> Rows:
    return list(Counter(target for _, target in links).items())


def top(successful: Rows, indegrees: Rows) -> Rows:
    fetched = {url for url, _ in successful}
    return [(url,) for _, url in sorted((-n, url) for url, n in indegrees if url not in fetched)[:5]]


def periodic(successful: Rows, indegrees: Rows) -> Rows:
    last, degree = dict(successful), dict(indegrees)
    latest = max(last.values())
    return [(url,) for url, at in last.items() if url in degree and (latest - at) * (1 + degree[url]) > 86_400]


def adaptive(shingles: Rows, indegrees: Rows) -> Rows:
    degree, fetches = dict(indegrees), Counter(url for url, _, _ in shingles)
    contents = Counter(url for url, _ in {(url, page_digest) for url, _, page_digest in shingles})
    return [(url,) for url, n in contents.items() if (n - 1) * degree.get(url, 0) > fetches[url]]


def queue(top: Rows, periodic: Rows, adaptive: Rows) -> Rows:
    return [(url, why) for why, of in (("top", top), ("periodic", periodic), ("adaptive", adaptive)) for (url,) in of]


_OF_SEARCH = (digests, pairs, users, scores, index)
_OF_FEEDBACK = (news, other, feedback)
_OF_CRAWL = (successful, shingles, links, indegrees, top, periodic, adaptive, queue)
TABLES: dict[str, Callable[..., Rows]] = {t.__name__: t for t in (*_OF_SEARCH, *_OF_FEEDBACK, *_OF_CRAWL)}


class Engine:
    """A workflow of the search engine on Spark, with a clock that the test sets; records all arrivals."""

    def __init__(self, name: str, spark: SparkSession, directory: Path) -> None:
        self.mill = Mill(load_workflow(name), directory, lambda locate: SparkEngine(lambda: spark, locate))
        self._web = load_module("search_engine", "simulate").Web()
        self._inputs = [c.name for c in self.mill.workflow.channels if c.role == "input"]
        self._arrived: dict[str, list[tuple[int, Rows]]] = {name: [] for name in self._inputs}
        self._rounds = 0
        self._checked: dict[str, int] = {}

    def arrive(self) -> None:
        batches = self._web.generate_round(self._rounds, int(self.mill.now))
        self._rounds += 1
        for channel in self._inputs:
            self.mill.insert_rows(channel, batches[channel])
            version = self.mill.catalog.channels.list_versions({channel: 0})[channel][-1]
            self._arrived[channel].append((version, [tuple(row.values()) for row in batches[channel]]))

    def run_due(self) -> list[str]:
        """Run everything that is due now; returns the flows that ran."""
        before = len(self.mill.list_refreshes())
        while due := self.mill.fire_due_triggers():
            for run in due:
                self.mill.attempt(run)
        return [flow for flow, _ in self.mill.list_refreshes()[before:]]

    def check(self) -> None:
        """Check that every table equals its definition over the versions it reflects, and that every target is met."""
        for table in (c.name for c in self.mill.workflow.channels if c.name in TABLES):
            assert not self.mill.read_target_status(table).is_late, table
            assert find_inconsistent_blocks(self.mill.catalog, table) == []
            head = self.mill.catalog.channels.read(table).head
            if head.provenance and self._checked.get(table) != head.seq:
                self._checked[table] = head.seq
                actual = Counter(map(_plain, self.mill.content(table)))
                assert actual == Counter(map(repr, self._evaluate(table, head.provenance.pathways))), table

    def reflects(self, table: str, *pathways: Pathway) -> list[bool]:
        """Whether the table reflects the newest version of the input, for each pathway."""
        reached = self.mill.read_pathways(table)
        return [self._arrived[pathway[0]][-1][0] in reached[pathway] for pathway in pathways]

    def _evaluate(self, channel: str, reached: Mapping[Pathway, frozenset[int]]) -> Rows:
        if channel in self._arrived:
            (version,) = reached[channel,]
            return [row for arrived, rows in self._arrived[channel] if arrived <= version for row in rows]
        reads = signature(TABLES[channel]).parameters
        return TABLES[channel](*(self._evaluate(read, self._find_input_versions(read, reached)) for read in reads))

    def _find_input_versions(
        self, read: str, reached: Mapping[Pathway, frozenset[int]]
    ) -> dict[Pathway, frozenset[int]]:
        """The versions that one table's input reflects, derived from the versions that the table reflects."""
        drop = 0 if read in self._arrived else 1
        return {
            pathway[: len(pathway) - drop]: versions for pathway, versions in reached.items() if pathway[-1] == read
        }


def _plain(row: Mapping[str, Any]) -> str:
    return repr(tuple(round(value, 9) if isinstance(value, float) else value for value in row.values()))


@pytest.fixture
def engine(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    engine = Engine(request.param, spark, tmp_path)
    engine.arrive()
    engine.run_due()
    engine.check()
    yield engine
    engine.mill.close()


def advance(engine: Engine, hours: float, *, arrives: bool = True) -> set[str]:
    """Advance the clock, insert rows or not, and run all due flows; returns the flows that ran."""
    engine.mill.now += hours * HOUR
    if arrives:
        engine.arrive()
    ran = engine.run_due()
    engine.check()
    return set(ran)


@pytest.mark.usefixtures("shipped_settings")
@pytest.mark.parametrize("engine", ["search"], indirect=True)
def test_pages_are_indexed_at_once_and_scores_daily(engine: Engine) -> None:
    pathways = (("pages", "digests"), ("clicks", "pairs", "users", "scores"))
    assert advance(engine, 0.5) == {"digests", "index"}
    assert advance(engine, 24) == {"digests", "index", "pairs", "users", "scores"}
    assert engine.reflects("index", *pathways) == [True, True]
    assert advance(engine, 7 * 24) == {"digests", "index"}
    assert engine.reflects("index", *pathways) == [True, False]


@pytest.mark.parametrize("engine", ["feedback"], indirect=True)
def test_news_are_processed_at_once_and_the_rest_within_a_day(engine: Engine) -> None:
    pathways = (("log", "news"), ("log", "other"))
    assert advance(engine, 0.5) == {"news", "feedback"}
    assert advance(engine, 0.5) == {"news", "feedback"}
    assert engine.reflects("feedback", *pathways) == [True, False]
    assert advance(engine, 24, arrives=False) == {"other", "feedback"}
    assert engine.reflects("feedback", *pathways) == [True, True]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["crawl"], indirect=True)
def test_pages_are_selected_at_three_rates_by_weekly_indegrees(engine: Engine) -> None:
    assert advance(engine, 1) == {table.__name__ for table in _OF_CRAWL}
    assert advance(engine, 1) == {"successful", "shingles"}
    assert advance(engine, 1, arrives=False) == {"top", "queue"}
    assert advance(engine, 3, arrives=False) == {"adaptive", "queue"}
    assert advance(engine, 7 * 24) >= {"successful", "shingles", "links", "indegrees", "periodic", "queue"}
