"""`sim`: the tables for people and for programs."""

from __future__ import annotations

import json

from tests.cli.program import Program


def test_table_5_for_programs(tidemill: Program) -> None:
    rows = json.loads(tidemill.well("sim", "workflows", "--table", "5", "--weeks", "0.2", "--json").out)
    assert len(rows) == 3 * 4
    assert rows[0].keys() == {"workflow", "mode", "lag", "cost", "repairs", "scheduler_s", "paper_lag", "paper_cost"}
    assert all(row["lag"] > 0 and row["cost"] > 0 and row["scheduler_s"] > 0 for row in rows)


def test_table_6_for_people(tidemill: Program) -> None:
    out = tidemill.well("sim", "workflows", "--table", "6", "--weeks", "0.02").out
    assert "GREEDY" in out
    assert "the paper's order" in out
