"""What Spark remembers of queries that are done stays little: their plans are large, and nobody looks at them."""

from __future__ import annotations

from pyspark.sql import SparkSession


def test_queries_that_are_done_are_forgotten(spark: SparkSession) -> None:
    for _ in range(200):
        spark.sql("SELECT 1").collect()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    assert 0 < spark._jsparkSession.sharedState().statusStore().executionsCount() < 100
