from __future__ import annotations

import pytest
from tests.cli.program import FailingEngine, InterruptedEngine, Program

from tidemill.app.wiring import Tidemill
from tidemill.model.run import RunKind


def test_prints_run_rows_and_seconds(started: Program) -> None:
    started.insert_sample()
    lines = started.well("run", "report").out.splitlines()
    assert lines[2].split() == ["large_orders", "delta", "5", "1", "3"]
    assert lines[3].split() == ["city_totals", "base", "6", "1", "3"]
    assert lines[-1].startswith("run 2 of report finished in ")


def test_the_document_has_the_run_and_its_blocks(started: Program) -> None:
    started.insert_sample()
    document = started.json("run", "report")
    assert (document["run"]["state"], document["run"]["subject"]) == ("finished", "report")
    assert document["run"]["seconds"] >= 0
    assert [b["channel"] for b in document["blocks"]] == ["large_orders", "city_totals"]


def test_a_failure_says_where_the_log_is(started: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.app.wiring.SparkEngine", FailingEngine)
    ended = started("run", "report")
    assert (ended.code, ended.out) == (7, "")
    assert ended.err == "error: task large_orders: no such column\nsee its log with: tidemill runs 1 --log\n"
    assert "about to fail" in started.well("runs", 1, "--log").out


def test_an_interrupted_run_is_cancelled(started: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.app.wiring.SparkEngine", InterruptedEngine)
    assert started("run", "report").code == 130
    status = started.json("status")
    assert status["active"] == []
    assert [c["reserved"] for c in status["channels"]] == [0, 0, 0]


def test_an_unknown_flow_is_named_with_those_there_are(started: Program) -> None:
    ended = started("run", "rapport", "--json")
    assert ended.code == 4
    assert ended.error == {
        "kind": "NotFound",
        "message": "no flow 'rapport' is declared; the flows are report",
        "notes": [],
    }


def test_kill(started: Program) -> None:
    with Tidemill.open(started.project) as mill:
        run = mill.catalog.request_run(RunKind.FLOW, "report")
    assert started.well("kill", run.id).out == "run 1 of report killed\n"
    assert started.json("runs", run.id)["run"]["state"] == "killed"
    assert started("kill", run.id, "--json").error["kind"] == "Conflict"


def test_a_backfill_is_left_to_servers(started: Program) -> None:
    asked = started.json("run", "report", "--backfill")["run"]
    assert (asked["backfill"], asked["state"]) == (True, "ready")
    said = started.well("run", "report", "--backfill").out
    assert (f"run {asked['id']} " in said, "start one with" in said) == (True, True)
    refused = started("run", "report", "--backfill", "--variant", "batch")
    assert (refused.code, "found both" in refused.err) == (2, True)
