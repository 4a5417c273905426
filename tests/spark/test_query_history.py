"""Spark retains few finished queries: their plans are large and never read."""

from __future__ import annotations

from pyspark.sql import SparkSession


def test_finished_queries_are_dropped_from_the_history(spark: SparkSession) -> None:
    for _ in range(110):
        spark.sql("SELECT 1").collect()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    assert 0 < spark._jsparkSession.sharedState().statusStore().executionsCount() < 100
