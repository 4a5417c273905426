from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.program import Program


def test_a_file_is_inserted(starter: Program) -> None:
    out = starter.run_ok("insert", "orders", starter.project / "orders.csv").out
    assert out == "inserted 6 rows as block 4 at 1 of orders\n"


def test_the_json_document_describes_the_block(starter: Program) -> None:
    document = starter.json("insert", "orders", starter.project / "orders.csv")
    block = document["block"]
    assert (block["channel"], block["seq"], block["kind"], block["rows"]) == ("orders", 1, "delta", 6)
    assert block["target"] == {"orders": [block["version"]]}
    assert block["visible"].endswith("Z")
    assert not document["repeated"]


def test_a_base_replaces_the_content(starter: Program) -> None:
    document = starter.json("insert", "orders", starter.project / "orders.csv", "--base")
    assert document["block"]["kind"] == "base"


def test_a_repeated_key_changes_nothing(starter: Program) -> None:
    file = starter.project / "orders.csv"
    first = starter.json("insert", "orders", file, "--key", "monday")
    second = starter.json("insert", "orders", file, "--key", "monday")
    assert second == {"block": first["block"], "repeated": True}
    assert "nothing was inserted" in starter.run_ok("insert", "orders", file, "--key", "monday").out
    assert starter.json("channels", "orders")["channel"]["head"] == 1


def test_the_format_can_be_given(starter: Program, tmp_path: Path) -> None:
    file = tmp_path / "orders.txt"
    file.write_text('{"id": 1, "city": "Ghent", "amount": 2.5}\n')
    assert starter("insert", "orders", file).code == 5
    assert starter.json("insert", "orders", file, "--format", "jsonl")["block"]["rows"] == 1


def test_bad_rows_insert_nothing(starter: Program, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("id,city,amount\n1,Ghent,2.5\nx,Ghent,2.5\n")
    result = starter("insert", "orders", file)
    assert (result.code, result.out) == (5, "")
    assert "row 2, column 'id'" in result.err
    assert starter.json("channels", "orders")["channel"]["head"] == 0


def test_an_interrupted_insert_is_cancelled(starter: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidemill.app.lazy_imports.load_file", interrupt)
    result = starter("insert", "orders", starter.project / "orders.csv")
    assert result.code == 130
    assert result.err == "error: interrupted; nothing became visible\n"
    assert [r["state"] for r in starter.json("runs")["runs"]] == ["failed"]
    assert starter.json("channels", "orders")["channel"]["reserved"] == 0
