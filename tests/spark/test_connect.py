"""Spark is called only in ways that Spark Connect supports; `make test-cluster` tests a real session."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from pyspark.errors import PySparkException

import tidemill.spark
from tidemill.spark import session

MODES = {"append", "overwrite", "error", "ignore"}
"""Write modes that Spark Connect supports; `errorifexists` is not one of them."""


def _find_write_modes(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "mode":
            yield from (str(a.value) for a in node.args if isinstance(a, ast.Constant))


def test_write_modes_are_supported_by_spark_connect() -> None:
    package = Path(tidemill.spark.__path__[0])
    modes = {mode for path in package.rglob("*.py") for mode in _find_write_modes(path)}
    assert modes
    assert modes <= MODES


class SharedSession:
    """A session of Spark Connect, which all runs share."""

    def __init__(self) -> None:
        self.conf: dict[str, str] = {}

    @property
    def sparkContext(self) -> None:  # noqa: N802  # PySpark's name
        raise PySparkException("JVM_ATTRIBUTE_NOT_SUPPORTED")


def test_a_small_run_leaves_a_shared_session_unchanged() -> None:
    shared = SharedSession()
    session.set_shuffle_partitions(shared, 1)
    assert shared.conf == {}
