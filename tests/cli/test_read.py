from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.cli.program import FakeEngine, Program

from tidemill.encoding.values import format_csv_line, to_json, to_text
from tidemill.intake.loader import load_file
from tidemill.model.change import Append
from tidemill.model.schema import Schema
from tidemill.model.view import View
from tidemill.ports.storage import LoadRequest

ROWS: list[dict[str, Any]] = [
    {"id": 1, "city": "Ghent", "amount": 1.5},
    {"id": 2, "city": "", "amount": None},
    {"id": 3, "city": None, "amount": float("nan")},
    {"id": 4, "city": 'a "b",\n\x1b[31m', "amount": float("-inf")},
]


class ReadingEngine(FakeEngine):
    def read_rows(self, view: View, limit: int | None = None) -> list[dict[str, Any]]:
        return ROWS[:limit]


@pytest.fixture
def reading(starter: Program, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr("tidemill.app.lazy_imports.SparkEngine", ReadingEngine)
    return starter


def test_rows_are_printed_as_a_table(reading: Program) -> None:
    lines = reading.run_ok("read", "orders").out.splitlines()
    assert lines[0].split() == ["id", "city", "amount"]
    assert lines[2].split() == ["1", "Ghent", "1.5"]
    assert lines[3].split() == ["2", "NULL"]
    assert r'a "b",\n\x1b[31m' in lines[5]
    assert lines[-1] == "4 rows"


def test_a_limit_reports_that_there_are_more_rows(reading: Program) -> None:
    assert reading.run_ok("read", "orders", "--limit", 2).out.endswith(
        "2 rows; there are more, see them with --limit\n"
    )
    assert reading.json("read", "orders", "--limit", 2)["more"]
    assert not reading.json("read", "orders", "--limit", 4)["more"]


def test_rows_are_printed_as_json(reading: Program) -> None:
    document = reading.json("read", "orders")
    assert [tuple(r.values()) for r in document["rows"]] == [
        (1, "Ghent", 1.5),
        (2, "", None),
        (3, None, "NaN"),
        (4, 'a "b",\n\x1b[31m', "-Infinity"),
    ]
    assert reading.run_ok("read", "orders", "--format", "json").document == document


def test_csv_output_can_be_inserted_again(reading: Program, tmp_path: Path) -> None:
    file, directory = tmp_path / "again.csv", tmp_path / "out"
    directory.mkdir()
    file.write_text(reading.run_ok("read", "orders", "--format", "csv", "--limit", 2).out)
    schema = Schema.from_ddl("id bigint, city string, amount double")
    load_file(file, LoadRequest(schema, Append(), directory))
    assert pq.read_table(directory).to_pylist() == ROWS[:2]


@pytest.mark.parametrize(
    ("kind", "cell", "expected"),
    [
        ("timestamp", dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC), "2026-05-01T12:00:00Z"),
        ("timestamp_ntz", dt.datetime(2026, 5, 1, 12), "2026-05-01T12:00:00"),
        ("date", dt.date(2026, 5, 1), "2026-05-01"),
        ("decimal(20, 10)", Decimal("0E-10"), "0.0000000000"),
        ("binary", b"\x00\xff", "AP8="),
        ("map<string, int>", [], {}),
        ("map<int, array<date>>", [(1, [dt.date(2026, 5, 1), None])], {"1": ["2026-05-01", None]}),
        ("struct<a: int, m: map<string, binary>>", {"a": 1, "m": [("k", b"x")]}, {"a": 1, "m": {"k": "eA=="}}),
        ("array<struct<a: double>>", [{"a": float("inf")}, None], [{"a": "Infinity"}, None]),
        ("boolean", True, True),
    ],
)
def test_values_are_encoded_as_json(kind: str, cell: Any, expected: Any) -> None:
    (field,) = Schema.from_ddl(f"c {kind}")
    assert to_json(cell, field.data_type) == expected
    text = to_text(cell, field.data_type)
    assert text == expected if isinstance(expected, str) else json.loads(text) == expected


def test_csv_quotes_values_that_need_quotes() -> None:
    assert format_csv_line(["a", None, "", 'b"c', "d,e", "f\ng"]) == 'a,,"","b""c","d,e","f\ng"'


def test_an_invalid_time_is_rejected(reading: Program) -> None:
    result = reading("read", "orders", "--as-of", "yesterday")
    assert result.code == 5
    assert "not a time: 'yesterday'" in result.err


@pytest.mark.parametrize(("as_of", "message"), [("99", "its head is at 0"), ("2999-01-01", "is in the future")])
def test_a_future_version_cannot_be_read(reading: Program, as_of: str, message: str) -> None:
    rejected = reading("read", "orders", "--as-of", as_of)
    assert rejected.code == 5
    assert message in rejected.err
