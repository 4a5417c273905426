"""A newcomer's first hour, on Spark: what `init` says to type works, and then the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from tests.cli.program import Program

from tidemill.spark.engine import SparkEngine


@pytest.fixture
def on_spark(tidemill: Program, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program on the session that all tests share: closing a project must not end it."""
    monkeypatch.setattr(SparkEngine, "stop", lambda _: None)
    return tidemill


@contextmanager
def within(program: Program, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as there:
        there.chdir(program.project)
        yield


def totals(program: Program, *arguments: str) -> dict[str, tuple[int, float]]:
    rows = program.json("read", "city_totals", *arguments)["rows"]
    return {r["city"]: (r["orders"], r["total"]) for r in rows}


def test_the_starter_project(on_spark: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program = on_spark
    following = program.json("init", program.project)["next"]
    assert following[0] == f"cd {program.project}"
    with within(program, monkeypatch):
        for command in following[1:]:
            program.well(*command.split()[1:])
    first = {"Ghent": (2, 420.25), "Oslo": (1, 150.0), "Turin": (1, 410.0)}
    assert totals(program) == first

    (program.project / "more.csv").write_text("id,city,amount\n7,Oslo,50\n8,Oslo,250\n")
    program.well("insert", "orders", program.project / "more.csv")
    assert program.json("status")["flows"][0]["waiting"] == ["orders"]
    run = program.json("run", "report")
    written = {b["channel"]: (b["kind"], b["rows"]) for b in run["blocks"]}
    assert written["city_totals"] == ("delta", 1), "the starter's own table is incremental from its second run"
    assert written["large_orders"] == ("delta", 1)
    assert program.json("status")["flows"][0]["waiting"] == []
    assert totals(program) == first | {"Oslo": (2, 400.0)}
    assert totals(program, "--as-of", "1") == first

    compacted = program.json("compact", "large_orders")["compacted"]
    assert compacted[0]["block"]["rows"] == 5
    assert program.json("gc")["blocks"] > 0
    assert totals(program) == first | {"Oslo": (2, 400.0)}
    assert program.json("doctor")["ok"]
