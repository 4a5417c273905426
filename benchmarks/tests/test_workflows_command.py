"""`workflows`: the tables as text and as JSON."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.tests.conftest import Bench
from benchmarks.workflows.command import TABLES, TableNumber
from benchmarks.workflows.table_claims import TABLE_6


def test_table_5_as_json(bench: Bench) -> None:
    document = bench.json("workflows", "--table", "5", "--weeks", "0.2", "--seeds", "1")
    rows = document["rows"]
    assert len(rows) == 3 * 4
    assert {"workflow", "mode", "lag", "cost", "repairs", "scheduler_s", "paper_lag", "paper_cost"} < rows[0].keys()
    assert all(row["lag"] > 0 and row["cost"] > 0 and row["scheduler_s"] > 0 for row in rows)


def test_table_6_as_text(bench: Bench) -> None:
    out = bench.run_ok("workflows", "--table", "6", "--weeks", "0.02").out
    assert "GREEDY" in out
    assert "Set-up" in out
    assert "greed is far better than chance (section 7.2). Rule: " in out


@pytest.fixture
def two_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declare table 6 for two seeds, to save time."""
    measure, declaration, usual, _ = TABLES[TableNumber.PLANNERS]
    monkeypatch.setitem(TABLES, TableNumber.PLANNERS, (measure, declaration, usual, 2))


@pytest.mark.usefixtures("two_seeds")
def test_table_6_has_a_verdict_as_json_and_declared_failures_pass(bench: Bench) -> None:
    """Measured as declared, a changed verdict would give exit code 1."""
    document = bench.json("workflows", "--table", "6")
    assert (document["as_declared"], document["holds"], document["unexpected"]) == (True, False, [])
    assert [claim["holds"] for claim in document["claims"]] == [True, True, False]
    assert all(claim["finding"] for claim in document["claims"] if not claim["holds"])


def test_a_changed_verdict_gives_an_exit_code(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    changed_table = replace(TABLE_6, claims=tuple(replace(claim, fails_in=()) for claim in TABLE_6.claims))
    measure, _, usual, _ = TABLES[TableNumber.PLANNERS]
    monkeypatch.setitem(TABLES, TableNumber.PLANNERS, (measure, changed_table, usual, 1))
    ended = bench("workflows", "--table", "6")
    assert ended.code == 1
    assert "not as declared: the dynamic program is much better than greed" in ended.err
    assert bench("workflows", "--table", "6", "--weeks", "0.02").code == 0  # other set-ups are not compared
