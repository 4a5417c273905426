"""Summaries of errors name the class and the place, and contain no values of rows."""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidemill.errors import BadInput
from tidemill.model.error_summary import mask_values, summarize_error

NAME = "Alice O'Hara"
PLACE = rf" \({__file__}:\d+\)"


@dataclass(frozen=True)
class Person:
    name: str

    def __repr__(self) -> str:
        return f"Person(name={self.name})"


def raise_with_value() -> None:
    raise ValueError(f"customer {NAME} has no address")


def raise_value_only() -> None:
    raise RuntimeError(NAME)


def fail_assertion() -> None:
    assert not NAME, f"no name expected, found {NAME}"


@pytest.mark.parametrize(
    ("fail", "expected"),
    [
        (raise_with_value, r"ValueError: customer \*\*\* has no address"),
        (raise_value_only, "RuntimeError"),
        (fail_assertion, r"AssertionError: no name expected, found \*\*\*"),
        (lambda: int(NAME), r"ValueError: invalid literal for int\(\) with base 10: \*\*\*"),
        (lambda: {}[NAME], "KeyError"),
        (lambda: {}[Person(NAME)], "KeyError"),
        (lambda: [1].index(Person(NAME)), r"ValueError: \*\*\* is not in list"),  # type: ignore[arg-type]
        (lambda: sys.exit(NAME), "SystemExit"),
        (lambda: int(NAME[:5].encode()), r"ValueError: invalid literal for int\(\) with base 10: \*\*\*"),
        (lambda: [][4711], "IndexError: list index out of range"),
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: None.city, "AttributeError: 'NoneType' object has no attribute 'city'"),  # type: ignore[attr-defined]
        (lambda: nothing, "NameError: name 'nothing' is not defined"),  # type: ignore[name-defined]  # noqa: F821
        (lambda: "a" + 1, r'TypeError: can only concatenate str \(not "int"\) to str'),  # type: ignore[operator]
        (lambda: datetime.date.fromisoformat(NAME), r"ValueError: Invalid isoformat string: \*\*\*"),
        (lambda: json.loads(NAME), r"JSONDecodeError: Expecting value: \*\*\*"),
        (lambda: Path(f"/nowhere/{NAME}").stat(), r"FileNotFoundError: \[Errno 2\] No such file or directory: \*\*\*"),
    ],
)
def test_errors_of_python_keep_what_their_code_says(fail: Callable[[], object], expected: str) -> None:
    with pytest.raises((Exception, SystemExit)) as error:
        fail()
    summary = summarize_error(error.value)
    assert "Alice" not in summary
    assert "Hara" not in summary
    assert re.fullmatch(expected + PLACE, summary), summary


class SparkError(Exception):
    """An error as PySpark raises it."""

    __module__ = "pyspark.errors.exceptions.captured"


UNKNOWN_COLUMN = (
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `amout` cannot be resolved. Did you mean [`amount`]? "
    "SQLSTATE: 42703; line 1 pos 7;\n'Project ['amout]"
)
RAISE_LINE = raise_with_value.__code__.co_firstlineno + 1
WORKER = f"""
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/pyspark/worker.py", line 1, in main
  File "{__file__}", line {RAISE_LINE}, in raise_with_value
    raise ValueError(f"customer {{NAME}} has no address")
ValueError: customer {NAME} has no address
\tat org.apache.spark.api.python.BasePythonRunner
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (UNKNOWN_COLUMN, f"SparkError: {UNKNOWN_COLUMN.splitlines()[0]}"),
        ("[DUPLICATED_MAP_KEY] Duplicate map key Alice was found. SQLSTATE: 23505", "SparkError: [DUPLICATED_MAP_KEY]"),
        ("[PARSE_ERROR] near 'Alice'. SQLSTATE: 42601", "SparkError: [PARSE_ERROR] near ***. SQLSTATE: 42601"),
        ("calling o1.\n: java.lang.OutOfMemoryError: Alice", "SparkError: java.lang.OutOfMemoryError"),
        (WORKER, f"ValueError: customer *** has no address ({__file__}:{RAISE_LINE})"),
    ],
)
def test_errors_of_spark_keep_their_condition(text: str, expected: str) -> None:
    assert summarize_error(SparkError(text)) == expected


def test_errors_of_tidemill_keep_their_message() -> None:
    assert summarize_error(BadInput("column 'city' of row 4711 is not a number")) == (
        "column 'city' of row 4711 is not a number"
    )


def test_an_error_without_a_stack_shows_only_its_class() -> None:
    assert summarize_error(ValueError("Alice")) == "ValueError"


def test_addresses_and_numbers_are_masked() -> None:
    assert mask_values("404 for https://h/alice?id=7 at line 3") == "*** for *** at line 3"
