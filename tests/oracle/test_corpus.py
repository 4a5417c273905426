"""Every query of the corpus is equal to Spark at three steps, and refreshed as the golden file says."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession
from tests.oracle.corpus.harness import keep_fresh, read_golden, read_queries, write_golden
from tests.oracle.queries.case import Scale

WHOLE = os.environ.get("TIDEMILL_CORPUS")
"""Set to run the whole corpus (`make corpus`); `update` also writes the golden file anew."""


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("scale", list(Scale) if WHOLE else [Scale.SMALL])
def test_every_query_is_kept_equal_to_spark(spark: SparkSession, scale: Scale) -> None:
    queries = read_queries(only_suite=not WHOLE)
    found = keep_fresh(spark, queries, scale)
    problems = [f"{name}: {problem}" for name, outcome in found.items() for problem in outcome.problems]
    assert problems == []
    if WHOLE == "update" and scale is Scale.SMALL:
        write_golden(found)
    golden = read_golden()
    assert not WHOLE or set(golden) == set(queries)
    assert {name: outcome.line for name, outcome in found.items()} == {name: golden.get(name) for name in queries}
