"""Few keys looked up in a content: by Spark, and by the driver wherever it can."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemill.spark.local import key_lookup
from tidemill.spark.merge import LookupKeys, filter_by_keys

SAME = {  # Spark and Arrow agree on which values are equal
    "TINYINT": ["1", "2", "-1"],
    "BIGINT": ["1", "2", "9000000000"],
    "BOOLEAN": ["true", "false", "true"],
    "STRING": ["'a'", "'A'", "'a '"],
    "BINARY": ["X'00'", "X'0000'", "X''"],
    "DECIMAL(20, 2)": ["1.10", "1.1", "-3"],
    "DATE": ["DATE'2024-01-01'", "DATE'1582-10-04'", "DATE'2024-01-02'"],
    "TIMESTAMP": [
        "TIMESTAMP'2024-01-01 00:00:00.000001Z'",
        "TIMESTAMP'1899-12-31 00:00:00Z'",
        "TIMESTAMP'2024-01-01 00:00:00Z'",
    ],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ'2024-03-10 02:30:00'", "TIMESTAMP_NTZ'2024-03-10 03:30:00'", "NULL"],
}
OTHERWISE = {  # they may not: the driver leaves these to Spark
    "DOUBLE": ["0.0D", "-0.0D", "CAST('NaN' AS DOUBLE)"],
    "FLOAT": ["0.0F", "-0.0F", "CAST('NaN' AS FLOAT)"],
    "ARRAY<INT>": ["array(1)", "array(1, NULL)", "array()"],
    "STRUCT<x: DOUBLE>": ["named_struct('x', 0.0D)", "named_struct('x', -0.0D)", "named_struct('x', NULL)"],
}


def rows(spark: SparkSession, kind: str, values: Sequence[str], name: str) -> DataFrame:
    """Each value beside each of three numbers, NULL among them."""
    listed = ", ".join(f"(CAST({v} AS {kind}))" for v in values)
    beside = "VALUES (1), (2), (CAST(NULL AS INT))"
    return spark.sql(f"SELECT v AS {name}1, n AS {name}2 FROM VALUES {listed} AS a(v), {beside} AS b(n)")


def stored(frame: DataFrame, directory: Path) -> ds.Dataset:
    frame.coalesce(2).write.parquet(str(directory))
    content = key_lookup.open_files([str(p) for p in sorted(directory.glob("*.parquet"))], frame.schema)
    assert content is not None
    return content


ON = (("c1", "k1"), ("c2", "k2"))


@pytest.mark.parametrize("kind", [*SAME, *OTHERWISE])
def test_spark_finds_null_with_null_and_equal_with_equal(spark: SparkSession, kind: str) -> None:
    values = [*(SAME | OTHERWISE)[kind], "NULL"]
    content = rows(spark, kind, values, "c").localCheckpoint()
    keys = rows(spark, kind, values[1:], "k")
    found = filter_by_keys(content, LookupKeys(ON, lambda: keys))
    content.createOrReplaceTempView("looked_through")
    keys.createOrReplaceTempView("looked_for")
    plain = "EXISTS (SELECT 1 FROM looked_for WHERE c1 IS NOT DISTINCT FROM k1 AND c2 IS NOT DISTINCT FROM k2)"
    expected = spark.sql(f"SELECT * FROM looked_through WHERE {plain}")
    assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))


@pytest.mark.parametrize("kind", SAME)
def test_the_driver_finds_what_spark_finds(
    spark: SparkSession, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = rows(spark, kind, [*SAME[kind], "NULL"], "c")
    keys = rows(spark, kind, SAME[kind][1:], "k").where("k1 IS NOT NULL AND k2 IS NOT NULL").limit(3)
    expected = filter_by_keys(content, LookupKeys(ON, lambda: keys)).toArrow().to_pylist()
    kept, sought = stored(content, tmp_path / "c"), keys.toArrow()
    for sieved in (0, key_lookup.MIN_ROWS_PER_KEY):
        monkeypatch.setattr(key_lookup, "MIN_ROWS_PER_KEY", sieved)
        found = key_lookup.find_rows(kept, sought, ON)
        assert found is not None
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected))


@pytest.mark.parametrize("kind", OTHERWISE)
def test_what_arrow_tells_apart_in_its_own_way_is_left_to_spark(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    content = rows(spark, kind, OTHERWISE[kind], "c")
    keys = rows(spark, kind, OTHERWISE[kind], "k")
    assert key_lookup.find_rows(stored(content, tmp_path / "c"), keys.toArrow(), ON) is None


def test_a_key_of_another_type_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    content = stored(spark.sql("SELECT 1 AS c1, 1 AS c2"), tmp_path / "c")
    assert key_lookup.find_rows(content, spark.sql("SELECT 1L AS k1, 1 AS k2").toArrow(), ON) is None


def test_null_is_left_to_spark_only_where_it_is_found(spark: SparkSession, tmp_path: Path) -> None:
    keys = spark.sql("VALUES ('a', 1), ('a', NULL), (NULL, 1), (NULL, NULL) AS t(k1, k2)").toArrow()
    known = stored(spark.sql("VALUES ('a', 1), ('b', 1) AS t(c1, c2)"), tmp_path / "known")
    found = key_lookup.find_rows(known, keys, ON)
    assert found is not None
    assert found.to_pylist() == [{"c1": "a", "c2": 1}]
    unknown = stored(spark.sql("VALUES ('a', 1), ('b', NULL) AS t(c1, c2)"), tmp_path / "unknown")
    assert key_lookup.find_rows(unknown, keys, ON) is None


def test_columns_that_arrow_cannot_join_along_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    content = stored(spark.sql("SELECT 'a' AS c1, 1 AS c2, array(1) AS much"), tmp_path / "c")
    keys = spark.sql("SELECT 'a' AS k1, 1 AS k2").toArrow()
    assert key_lookup.find_rows(content, keys, ON) is None


def test_texts_that_are_kept_as_codes_come_back_as_texts(spark: SparkSession, tmp_path: Path) -> None:
    content = spark.range(20_000).selectExpr("CAST(id % 7 AS STRING) AS c1", "CAST(id AS INT) AS c2", "id AS n")
    found = key_lookup.find_rows(
        stored(content, tmp_path / "c"), spark.sql("VALUES ('3', 3), ('4', 11), ('4', 12) AS t(k1, k2)").toArrow(), ON
    )
    assert found is not None
    assert sorted(found.to_pylist(), key=str) == [{"c1": "3", "c2": 3, "n": 3}, {"c1": "4", "c2": 11, "n": 11}]


def test_remote_files_are_left_to_spark(spark: SparkSession) -> None:
    assert key_lookup.open_files(["s3a://bucket/file.parquet"], spark.sql("SELECT 1 AS c1").schema) is None
