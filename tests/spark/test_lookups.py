"""Lookups of few keys in a content: by Spark, and by the driver where types allow it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.marks import long

from tidemill.spark.key_joins import exclude_matching, select_matching

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
IN_SUITE = ("BIGINT", "STRING", "DECIMAL(20, 2)", "TIMESTAMP_NTZ", "DOUBLE", "ARRAY<INT>")
OTHERS = [kind for kind in SAME | DIFFERENT if kind not in IN_SUITE]


def build_rows(spark: SparkSession, kind: str, values: Sequence[str], name: str) -> DataFrame:
    """Each value combined with each of three numbers, one of them NULL."""
    value_list = ", ".join(f"(CAST({v} AS {kind}))" for v in values)
    numbers = "VALUES (1), (2), (CAST(NULL AS INT))"
    return spark.sql(f"SELECT v AS {name}1, n AS {name}2 FROM VALUES {value_list} AS a(v), {numbers} AS b(n)")


ON = (("c1", "k1"), ("c2", "k2"))


@pytest.mark.parametrize("kind", [*IN_SUITE, *map(long, OTHERS)])
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
