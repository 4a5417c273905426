"""Spark's errors about rows are reported without the rows' values."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException, PySparkTypeError
from pyspark.sql import SparkSession

from tidemill.spark.session import extract_first_line, summarize_spark_error

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


class ReportedError(PySparkException):
    """An error as Java reports it."""

    __module__ = "pyspark.errors.exceptions.captured"

    def __init__(self, message: str, state: str | None, **parameters: Any) -> None:
        super().__init__(message)
        self._message = message
        self._condition = message[1:].partition("]")[0] if message.startswith("[") else None
        self._state, self._parameters = state, parameters

    def getCondition(self) -> str | None:  # noqa: N802
        return self._condition

    def getMessage(self) -> str:  # noqa: N802
        return self._message

    def getSqlState(self) -> str | None:  # type: ignore[override]  # noqa: N802
        return self._state

    def getMessageParameters(self) -> dict[str, Any]:  # noqa: N802
        return self._parameters


CAST = '[CAST_INVALID_INPUT] The value \'Alice\' of the type "STRING" cannot be cast to "INT".'


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            ReportedError(f"{CAST} SQLSTATE: 22018", "22018", expression="'Alice'"),
            "[CAST_INVALID_INPUT] The value … of",
        ),
        (ReportedError(f"{CAST} SQLSTATE: 22018", "22018"), "[CAST_INVALID_INPUT] caused by a value of a row"),
        (ReportedError(CAST, None, expression="'Alice'"), "[CAST_INVALID_INPUT] The value … of"),
        (ReportedError(CAST, None), "ReportedError: [CAST_INVALID_INPUT]"),
        (
            ReportedError("[DUPLICATE_KEY] Found duplicate keys Alice, 4711.", "23505", a="Alice", n=4711, x=None),
            "keys …, ….",
        ),
        (
            ReportedError("[INVALID_FORMAT.MISMATCH_INPUT] The input 'Ali\\'ce' is wrong.", "42601"),
            "The input *** is wrong",
        ),
        (ReportedError("Job aborted: org.x.SparkDateTimeException: [BAD] Alice", None), "SparkDateTimeException"),
        (ReportedError("the row Alice is gone", None), "ReportedError"),
        (
            PySparkTypeError(
                errorClass="FIELD_DATA_TYPE_UNACCEPTABLE",
                messageParameters={"data_type": "LongType()", "obj": "'Alice'", "obj_type": "str"},
            ),
            "[FIELD_DATA_TYPE_UNACCEPTABLE]",
        ),
    ],
)
def test_an_error_of_any_form_contains_no_value(error: PySparkException, expected: str) -> None:
    summary = summarize_spark_error(error)
    assert expected in summary
    assert "Ali" not in summary
    assert "4711" not in summary
