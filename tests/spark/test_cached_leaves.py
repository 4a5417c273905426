"""Cached frames are read as leaves and not planned again."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemill.spark.session import to_cached_leaf


def test_a_cached_frame_is_a_leaf_of_later_plans(spark: SparkSession) -> None:
    frame = spark.range(5).selectExpr("id", "id * 2 AS twice").persist()
    try:
        leaf = to_cached_leaf(frame)
        for _ in range(12):  # each reads the previous one twice: otherwise plans would have 4 096 leaves
            both = leaf.alias("a").join(leaf.alias("b"), "id").selectExpr("id", "a.twice")
            leaf = to_cached_leaf(both.persist())
        assert leaf._jdf.queryExecution().analyzed().children().isEmpty()
        assert sorted(leaf.collect()) == sorted(frame.collect())
    finally:
        spark.catalog.clearCache()
