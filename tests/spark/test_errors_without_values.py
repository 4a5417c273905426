"""Spark's errors about rows are reported without the rows' values."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.spark.session import extract_first_line

SECRET = "4711 Elm's Street\n'x'"
CASES = {
    "CAST_INVALID_INPUT": "CAST(a AS INT)",
    "CANNOT_PARSE_TIMESTAMP": "to_timestamp(a, 'yyyy')",
    "CAST_OVERFLOW": "CAST(n AS TINYINT)",
    "NUMERIC_VALUE_OUT_OF_RANGE": "CAST(n AS DECIMAL(3, 0))",
    "DUPLICATED_MAP_KEY": "map(a, 1, concat(a, ''), 2)",
}


@pytest.mark.parametrize("condition", CASES)
def test_an_error_message_contains_no_value_of_a_row(spark: SparkSession, condition: str) -> None:
    rows = spark.createDataFrame([(SECRET, 47114711)], "a string, n int").repartition(2)
    with pytest.raises(PySparkException) as error:
        rows.selectExpr(CASES[condition]).collect()
    message = extract_first_line(error.value)
    assert message.startswith(f"[{condition}")
    assert "4711" not in message
    assert "Elm" not in message
