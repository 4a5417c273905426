"""Every query of the corpus equals Spark at three steps, with the refresh mode of the golden file."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession
from tests.oracle.corpus.harness import read_golden, read_queries, refresh_and_compare, write_golden
from tests.oracle.queries.case import Scale

WHOLE = os.environ.get("TIDEMILL_CORPUS")
"""Set to run the whole corpus (`make corpus`); `update` also rewrites the golden file."""


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("scale", list(Scale) if WHOLE else [Scale.SMALL])
def test_every_query_of_the_corpus_equals_spark(spark: SparkSession, scale: Scale) -> None:
    queries = read_queries(only_suite=not WHOLE)
    outcomes = refresh_and_compare(spark, queries, scale)
    problems = [f"{name}: {problem}" for name, outcome in outcomes.items() for problem in outcome.problems]
    assert problems == []
    if WHOLE == "update" and scale is Scale.SMALL:
        write_golden(outcomes)
    golden = read_golden()
    assert not WHOLE or set(golden) == set(queries)
    assert {name: outcome.line for name, outcome in outcomes.items()} == {name: golden.get(name) for name in queries}
