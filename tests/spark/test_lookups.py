"""Lookups of few keys in a content: by Spark, and by the driver where types allow it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemill.spark.key_joins import exclude_matching, select_matching
from tidemill.spark.local import key_lookup

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
DIFFERENT = {  # they may not: the driver passes these to Spark
    "DOUBLE": ["0.0D", "-0.0D", "CAST('NaN' AS DOUBLE)"],
    "FLOAT": ["0.0F", "-0.0F", "CAST('NaN' AS FLOAT)"],
    "ARRAY<INT>": ["array(1)", "array(1, NULL)", "array()"],
    "STRUCT<x: DOUBLE>": ["named_struct('x', 0.0D)", "named_struct('x', -0.0D)", "named_struct('x', NULL)"],
}


def build_rows(spark: SparkSession, kind: str, values: Sequence[str], name: str) -> DataFrame:
    """Each value combined with each of three numbers, one of them NULL."""
    value_list = ", ".join(f"(CAST({v} AS {kind}))" for v in values)
    numbers = "VALUES (1), (2), (CAST(NULL AS INT))"
    return spark.sql(f"SELECT v AS {name}1, n AS {name}2 FROM VALUES {value_list} AS a(v), {numbers} AS b(n)")


def write_dataset(frame: DataFrame, directory: Path) -> ds.Dataset:
    frame.coalesce(2).write.parquet(str(directory))
    content = key_lookup.open_files([str(p) for p in sorted(directory.glob("*.parquet"))], frame.schema)
    assert content is not None
    return content


ON = (("c1", "k1"), ("c2", "k2"))


@pytest.mark.parametrize("kind", [*SAME, *DIFFERENT])
def test_spark_matches_null_with_null_and_equal_values(spark: SparkSession, kind: str) -> None:
    values = [*(SAME | DIFFERENT)[kind], "NULL"]
    content = build_rows(spark, kind, values, "c").localCheckpoint()
    keys = build_rows(spark, kind, values[1:], "k")
    matches = select_matching(content, keys, ON)
    others = exclude_matching(content, keys, ON)
    content.createOrReplaceTempView("lookup_content")
    keys.createOrReplaceTempView("lookup_keys")
    condition = "EXISTS (SELECT 1 FROM lookup_keys WHERE c1 IS NOT DISTINCT FROM k1 AND c2 IS NOT DISTINCT FROM k2)"
    expected = spark.sql(f"SELECT * FROM lookup_content WHERE {condition}")
    assert sorted(map(str, matches.collect())) == sorted(map(str, expected.collect()))
    excluded = spark.sql(f"SELECT * FROM lookup_content WHERE NOT {condition}")
    assert sorted(map(str, others.collect())) == sorted(map(str, excluded.collect()))


@pytest.mark.parametrize("kind", SAME)
def test_the_driver_finds_the_same_rows_as_spark(
    spark: SparkSession, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = build_rows(spark, kind, [*SAME[kind], "NULL"], "c")
    keys = build_rows(spark, kind, SAME[kind][1:], "k").where("k1 IS NOT NULL AND k2 IS NOT NULL").limit(3)
    expected = select_matching(content, keys, ON).toArrow().to_pylist()
    dataset, key_table = write_dataset(content, tmp_path / "c"), keys.toArrow()
    for min_rows in (0, key_lookup.MIN_ROWS_PER_KEY):
        monkeypatch.setattr(key_lookup, "MIN_ROWS_PER_KEY", min_rows)
        matches = key_lookup.find_rows(dataset, key_table, ON)
        assert matches is not None
        assert sorted(map(str, matches.to_pylist())) == sorted(map(str, expected))


@pytest.mark.parametrize("kind", DIFFERENT)
def test_types_that_arrow_compares_differently_are_passed_to_spark(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    content = build_rows(spark, kind, DIFFERENT[kind], "c")
    keys = build_rows(spark, kind, DIFFERENT[kind], "k")
    assert key_lookup.find_rows(write_dataset(content, tmp_path / "c"), keys.toArrow(), ON) is None


def test_a_key_of_another_type_is_passed_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    content = write_dataset(spark.sql("SELECT 1 AS c1, 1 AS c2"), tmp_path / "c")
    assert key_lookup.find_rows(content, spark.sql("SELECT 1L AS k1, 1 AS k2").toArrow(), ON) is None


def test_null_keys_are_passed_to_spark_only_if_the_content_has_nulls(spark: SparkSession, tmp_path: Path) -> None:
    keys = spark.sql("VALUES ('a', 1), ('a', NULL), (NULL, 1), (NULL, NULL) AS t(k1, k2)").toArrow()
    without_nulls = write_dataset(spark.sql("VALUES ('a', 1), ('b', 1) AS t(c1, c2)"), tmp_path / "known")
    matches = key_lookup.find_rows(without_nulls, keys, ON)
    assert matches is not None
    assert matches.to_pylist() == [{"c1": "a", "c2": 1}]
    with_nulls = write_dataset(spark.sql("VALUES ('a', 1), ('b', NULL) AS t(c1, c2)"), tmp_path / "unknown")
    assert key_lookup.find_rows(with_nulls, keys, ON) is None


def test_columns_that_arrow_cannot_join_are_passed_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    content = write_dataset(spark.sql("SELECT 'a' AS c1, 1 AS c2, array(1) AS much"), tmp_path / "c")
    keys = spark.sql("SELECT 'a' AS k1, 1 AS k2").toArrow()
    assert key_lookup.find_rows(content, keys, ON) is None


def test_dictionary_encoded_strings_are_returned_as_strings(spark: SparkSession, tmp_path: Path) -> None:
    content = spark.range(20_000).selectExpr("CAST(id % 7 AS STRING) AS c1", "CAST(id AS INT) AS c2", "id AS n")
    matches = key_lookup.find_rows(
        write_dataset(content, tmp_path / "c"),
        spark.sql("VALUES ('3', 3), ('4', 11), ('4', 12) AS t(k1, k2)").toArrow(),
        ON,
    )
    assert matches is not None
    assert sorted(matches.to_pylist(), key=str) == [{"c1": "3", "c2": 3, "n": 3}, {"c1": "4", "c2": 11, "n": 11}]


def test_remote_files_are_passed_to_spark(spark: SparkSession) -> None:
    assert key_lookup.open_files(["s3a://bucket/file.parquet"], spark.sql("SELECT 1 AS c1").schema) is None
