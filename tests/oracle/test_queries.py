"""Tables of random queries over random histories equal the same queries run from scratch."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.oracle.conftest import REPORT
from tests.oracle.queries import world
from tests.oracle.queries.columns import Column, Type
from tests.oracle.queries.generate import DEPTHS, case, one_query
from tests.oracle.queries.histories import NAMES, Input, Insert
from tests.oracle.queries.report import Different
from tests.oracle.queries.tally import CONSTRUCTS, LEAST, Tally

from tidemill.app.wiring import Tidemill
from tidemill.model.change import Signed

CAMPAIGN = "TIDEMILL_EXAMPLES" in os.environ
EXAMPLES = max(1, int(os.environ.get("TIDEMILL_EXAMPLES", "32")) // 32)
LOCAL_WORK = os.environ.get("TIDEMILL_ENGINE_LOCAL", "on")
"""Off: Spark executes every step of every refresh."""

QUERIES, STEPS = (24, 6) if CAMPAIGN else (5, 4)
DEEP = DEPTHS if CAMPAIGN and LOCAL_WORK == "on" else (0, 0, 0, 1)
"""The suite makes 20 comparisons, mostly of plain queries; `make search` also runs deep ones.

Without local work the campaign stays with plain queries: a deep one makes dozens of steps, each a Spark job, and the
time of one deep comparison is better spent on five plain ones.
"""


@pytest.mark.timeout(0 if CAMPAIGN else 3600)  # reducing a failing case may take long
def test_declared_queries_stay_fresh(
    spark: SparkSession, record_property: Callable[[str, object], None], pytestconfig: pytest.Config
) -> None:
    tally = Tally()
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    @settings(max_examples=EXAMPLES, derandomize=not CAMPAIGN, phases=(Phase.explicit, Phase.reuse, Phase.generate))
    @given(seed=st.integers(0, 2**64))
    def search(seed: int) -> None:
        made = case(seed, QUERIES, STEPS, DEEP)
        tally.add(made, world.search(spark, made))
        gc.collect()  # unreachable DataFrames keep their plans in Java, where a campaign would run out of memory
        if CAMPAIGN:
            with capture.global_and_fixture_disabled():
                print(tally.lines[0], flush=True)

    try:
        search()
    finally:
        record_property(REPORT, "\n".join(tally.lines))
    assert tally.incremental >= LEAST, tally.lines[0]


def test_the_grammar_reaches_every_construct() -> None:
    tables = {table: tuple(Column(NAMES[t], t) for t in Type) for table in "tu"}
    random = Random(1)
    texts = [one_query(random, tables).text for _ in range(2000)]
    assert [c for c in CONSTRUCTS if not any(c in text for text in texts)] == []


def test_a_stale_table_is_detected(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter([True, False])

    def refresh_once(mill: Tidemill, table: str) -> str:
        if next(runs):
            mill.run(table)
        return "none"

    monkeypatch.setattr(world, "refresh", refresh_once)
    inputs = [Input("t", "k int, f double", Signed())]
    history = [[Insert("t", [{"k": 1, "f": 0.5}])], [Insert("t", [{"k": 1, "f": 1.5}])]]
    with pytest.raises(Different, match="the table and Spark from scratch differ") as caught:
        world.check(spark, {"q": "SELECT k, sum(f) AS s FROM t GROUP BY k"}, inputs, history)
    assert "only in the table: 1 rows\n  {'k': 1, 's': 0.5}" in str(caught.value)
    assert "[Insert('t', [{'k': 1, 'f': 1.5}])]" in str(caught.value)
