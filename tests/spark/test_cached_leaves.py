"""What Spark is to keep is read as it is, not planned again."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemill.spark.session import to_cached_leaf


def test_what_is_kept_is_a_leaf_and_kept_once(spark: SparkSession) -> None:
    frame = spark.range(5).selectExpr("id", "id * 2 AS twice").persist()
    try:
        kept = to_cached_leaf(frame)
        for _ in range(12):  # each reads the one before twice: plans of 4 096 leaves otherwise
            both = kept.alias("a").join(kept.alias("b"), "id").selectExpr("id", "a.twice")
            kept = to_cached_leaf(both.persist())
        assert kept._jdf.queryExecution().analyzed().children().isEmpty()
        assert sorted(kept.collect()) == sorted(frame.collect())
    finally:
        spark.catalog.clearCache()
