"""A new user's first commands, on Spark: those that `init` prints, then the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from tests.cli.program import Program

from tidemill.spark.engine import SparkEngine


@pytest.fixture
def on_spark(tidemill: Program, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The command line on the Spark session that all tests share; closing a project must not stop it."""
    monkeypatch.setattr(SparkEngine, "stop", lambda _: None)
    return tidemill


@contextmanager
def change_directory(program: Program, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.chdir(program.project)
        yield


def read_totals(program: Program, *arguments: str) -> dict[str, tuple[int, float]]:
    rows = program.json("read", "city_totals", *arguments)["rows"]
    return {r["city"]: (r["orders"], r["total"]) for r in rows}


def test_the_starter_project(on_spark: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program = on_spark
    commands = program.json("init", program.project)["next"]
    assert commands[0] == f"cd {program.project}"
    with change_directory(program, monkeypatch):
        for command in commands[1:]:
            program.run_ok(*command.split()[1:])
    first = {"Ghent": (2, 420.25), "Oslo": (1, 150.0), "Turin": (1, 410.0)}
    assert read_totals(program) == first

    (program.project / "more.csv").write_text("id,city,amount\n7,Oslo,50\n8,Oslo,250\n")
    program.run_ok("insert", "orders", program.project / "more.csv")
    assert program.json("status")["flows"][0]["pending_channels"] == ["orders"]
    run = program.json("run", "report")
    blocks = {b["channel"]: (b["kind"], b["rows"]) for b in run["blocks"]}
    assert blocks["city_totals"] == ("delta", 1), "the starter's own table is incremental from its second run"
    assert blocks["large_orders"] == ("delta", 1)
    assert program.json("status")["flows"][0]["pending_channels"] == []
    assert read_totals(program) == first | {"Oslo": (2, 400.0)}
    assert read_totals(program, "--as-of", "1") == first

    compacted = program.json("compact", "large_orders")["compacted"]
    assert compacted[0]["block"]["rows"] == 5
    assert program.json("gc")["blocks"] > 0
    assert read_totals(program) == first | {"Oslo": (2, 400.0)}
    assert program.json("doctor")["ok"]
