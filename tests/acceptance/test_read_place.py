"""Few rows are read on the driver, with the values that Spark returns."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.spark.block_reader import BlockReader

SCHEMA = (
    "id int, n bigint, f double, d decimal(20, 2), s string, p boolean, day date, at timestamp, wall timestamp_ntz, "
    "z binary, o struct<x: int, y: string>, a array<int>, m map<string, int>"
)
ROW = {
    "id": 1,
    "n": 1 << 40,
    "f": float("inf"),
    "d": Decimal("3.50"),
    "s": "é",
    "p": True,
    "day": date(2026, 1, 2),
    "at": datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    "wall": datetime(2026, 1, 2, 3, 4, 5, 6),
    "z": b"\0",
    "o": {"x": None, "y": "b"},
    "a": [1, None],
    "m": {"k": 1},
}


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Tidemill]:
    workflow = tm.Workflow("readings")
    workflow.input("readings", SCHEMA, key="id")
    with Tidemill(tmp_path, Settings(), Project((workflow.build_spec(),))) as opened:
        opened.apply()
        opened.insert("readings", [ROW, ROW | {"id": 2}])
        opened.insert("readings", [{"id": 2, "s": "later"}, ROW | {"id": 3}])
        yield opened


@pytest.mark.usefixtures("spark")
@pytest.mark.skipif(os.environ.get("TIDEMILL_ENGINE_LOCAL") == "off", reason="make test-spark-only reads on Spark")
def test_few_rows_are_read_without_a_job(mill: Tidemill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockReader, "read_view", pytest.fail)
    assert sorted(row["s"] for row in mill.rows("readings")) == ["later", "é", "é"]
    assert len(mill.rows("readings", limit=2)) == 2


def test_the_values_are_those_of_spark(mill: Tidemill, spark: SparkSession) -> None:
    rows = {row["id"]: row for row in mill.rows("readings")}
    assert rows == {row["id"]: row for row in mill.read("readings").toArrow().to_pylist()}
    assert rows[1] == ROW | {"m": [("k", 1)]}


PROJECT = """
import tidemill as tm
wf = tm.Workflow("readings")
wf.input("readings", "id int, s string", key="id")
"""
PROGRAM = """
from tidemill.app.wiring import Tidemill
with Tidemill.open() as mill:
    mill.apply()
    for s in ("first", "second", "third"):
        mill.insert("readings", [{"id": 1, "s": s}])
for use in (lambda mill: print(mill.rows("readings")), lambda mill: print(mill.compact("readings").rows)):
    with Tidemill.open() as mill:
        use(mill)
"""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_new_process_reads_and_compacts(tmp_path: Path) -> None:
    """No session of Spark is running yet, unlike in the other tests."""
    (tmp_path / "tidemill.toml").touch()
    (tmp_path / "workflow.py").write_text(PROJECT)
    program = [sys.executable, "-c", PROGRAM]
    finished = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == ["[{'id': 1, 's': 'third'}]", "1"]
