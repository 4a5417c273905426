from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.program import Program


def test_inserts_a_file(started: Program) -> None:
    out = started.well("insert", "orders", started.project / "orders.csv").out
    assert out == "inserted 6 rows as block 4 at 1 of orders\n"


def test_the_document_has_the_block(started: Program) -> None:
    document = started.json("insert", "orders", started.project / "orders.csv")
    block = document["block"]
    assert (block["channel"], block["seq"], block["kind"], block["rows"]) == ("orders", 1, "delta", 6)
    assert block["target"] == {"orders": [block["version"]]}
    assert block["visible"].endswith("Z")
    assert not document["repeated"]


def test_a_base_is_the_whole_content(started: Program) -> None:
    document = started.json("insert", "orders", started.project / "orders.csv", "--base")
    assert document["block"]["kind"] == "base"


def test_a_repeated_key_changes_nothing(started: Program) -> None:
    file = started.project / "orders.csv"
    first = started.json("insert", "orders", file, "--key", "monday")
    second = started.json("insert", "orders", file, "--key", "monday")
    assert second == {"block": first["block"], "repeated": True}
    assert "nothing was inserted" in started.well("insert", "orders", file, "--key", "monday").out
    assert started.json("channels", "orders")["channel"]["head"] == 1


def test_the_format_can_be_said(started: Program, tmp_path: Path) -> None:
    file = tmp_path / "orders.txt"
    file.write_text('{"id": 1, "city": "Ghent", "amount": 2.5}\n')
    assert started("insert", "orders", file).code == 5
    assert started.json("insert", "orders", file, "--format", "jsonl")["block"]["rows"] == 1


def test_bad_rows_insert_nothing(started: Program, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("id,city,amount\n1,Ghent,2.5\nx,Ghent,2.5\n")
    ended = started("insert", "orders", file)
    assert (ended.code, ended.out) == (5, "")
    assert "row 2, column 'id'" in ended.err
    assert started.json("channels", "orders")["channel"]["head"] == 0


def test_an_interrupted_insert_is_cancelled(started: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidemill.app.wiring.load_file", interrupted)
    ended = started("insert", "orders", started.project / "orders.csv")
    assert ended.code == 130
    assert ended.err == "error: interrupted; nothing became visible\n"
    assert [r["state"] for r in started.json("runs")["runs"]] == ["failed"]
    assert started.json("channels", "orders")["channel"]["reserved"] == 0
