from __future__ import annotations

import pytest
from tests.cli.program import FailingEngine, InterruptedEngine, Program

from tidemill.app.wiring import Tidemill
from tidemill.model.run import RunKind


def test_run_prints_rows_and_seconds(starter: Program) -> None:
    starter.insert_sample()
    lines = starter.run_ok("run", "report").out.splitlines()
    assert lines[2].split() == ["large_orders", "delta", "5", "1", "3"]
    assert lines[3].split() == ["city_totals", "base", "6", "1", "3"]
    assert lines[-1].startswith("run 2 of report finished in ")


def test_the_json_document_describes_the_run_and_its_blocks(starter: Program) -> None:
    starter.insert_sample()
    document = starter.json("run", "report")
    assert (document["run"]["state"], document["run"]["subject"]) == ("finished", "report")
    assert document["run"]["seconds"] >= 0
    assert [b["channel"] for b in document["blocks"]] == ["large_orders", "city_totals"]


def test_a_failure_names_the_log(starter: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.app.lazy_imports.SparkEngine", FailingEngine)
    result = starter("run", "report")
    assert (result.code, result.out) == (7, "")
    assert result.err == "error: task large_orders: no such column\nsee its log with: tidemill runs 1 --log\n"
    assert "about to fail" in starter.run_ok("runs", 1, "--log").out


def test_an_interrupted_run_is_cancelled(starter: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.app.lazy_imports.SparkEngine", InterruptedEngine)
    assert starter("run", "report").code == 130
    status = starter.json("status")
    assert status["active"] == []
    assert [c["reserved"] for c in status["channels"]] == [0, 0, 0]


def test_the_error_for_an_unknown_flow_lists_the_flows(starter: Program) -> None:
    result = starter("run", "rapport", "--json")
    assert result.code == 4
    assert result.error == {
        "kind": "NotFound",
        "message": "no flow 'rapport' is declared; the flows are report",
        "notes": [],
    }


def test_a_run_is_killed(starter: Program) -> None:
    with Tidemill.open(starter.project) as mill:
        run = mill.catalog.runs.request(RunKind.FLOW, "report")
    assert starter.run_ok("kill", run.id).out == "run 1 of report killed\n"
    assert starter.json("runs", run.id)["run"]["state"] == "killed"
    assert starter("kill", run.id, "--json").error["kind"] == "Conflict"


def test_a_backfill_is_queued_for_servers(starter: Program) -> None:
    requested = starter.json("run", "report", "--backfill")["run"]
    assert (requested["backfill"], requested["state"]) == (True, "ready")
    out = starter.run_ok("run", "report", "--backfill").out
    assert (f"run {requested['id']} " in out, "start one with" in out) == (True, True)
    rejected = starter("run", "report", "--backfill", "--variant", "batch")
    assert (rejected.code, "found both" in rejected.err) == (2, True)
