"""JSON lines."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from tests.intake.file_loader import FileLoader

from tidemill.intake import json_lines

PRECISE = "12345678901234567890.123456789012345678"


def test_objects_become_rows(loader: FileLoader) -> None:
    content = '{"b": "x", "a": 1}\n\n  \n{"a": null, "b": ""}'
    assert loader.rows("a.jsonl", content, "a int, b string") == [{"a": 1, "b": "x"}, {"a": None, "b": ""}]


def test_an_absent_name_is_null(loader: FileLoader) -> None:
    assert loader.rows("a.ndjson", '{"a": 1}\n{}\n', "a int, b string") == [{"a": 1, "b": None}, {"a": None, "b": None}]


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_an_empty_insert(loader: FileLoader, content: str) -> None:
    assert loader.rows("a.jsonl", content, "a int") == []
    assert list(loader.out.iterdir()) == []


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        ("boolean", "true", True),
        ("bigint", "9007199254740993", 2**53 + 1),
        ("bigint", "-9223372036854775808", -(2**63)),
        ("double", "0.1", 0.1),
        ("double", "1", 1.0),
        ("double", "-Infinity", float("-inf")),
        (
            "decimal(38,18)",
            "12345678901234567890.123456789012345678",
            Decimal("12345678901234567890.123456789012345678"),
        ),
        ("decimal(5,2)", '"1.50"', Decimal("1.50")),
        ("string", '"\\u00fc"', "ü"),
        ("binary", '"AP8="', b"\x00\xff"),
        ("date", '"2024-01-31"', date(2024, 1, 31)),
        ("timestamp", '"2024-01-31T12:00:00+01:00"', datetime(2024, 1, 31, 11, tzinfo=UTC)),
        ("timestamp_ntz", '"2024-01-31 12:00:00"', datetime(2024, 1, 31, 12)),
        ("array<int>", "[1, null, 3]", [1, None, 3]),
        ("array<array<date>>", '[[], null, ["2024-01-31"]]', [[], None, [date(2024, 1, 31)]]),
        ("map<string,decimal(3,1)>", '{"a": 1.5, "b": null}', [("a", Decimal("1.5")), ("b", None)]),
        ("map<date,int>", '{"2024-01-31": 1}', [(date(2024, 1, 31), 1)]),
        ("map<string,int>", "{}", []),
        ("struct<x: int, y: string>", '{"y": "z", "x": 1}', {"x": 1, "y": "z"}),
        ("struct<x: int, y: struct<z: boolean>>", "{}", {"x": None, "y": None}),
        ("array<struct<x: int not null>>", '[{"x": 1}, null]', [{"x": 1}, None]),
    ],
)
def test_values_of_each_type_are_loaded(loader: FileLoader, type: str, text: str, value: object) -> None:
    rows = loader.rows("a.jsonl", f'{{"a": null}}\n{{"a": {text}}}\n{{"a": null}}', f"a {type}")
    assert rows == [{"a": None}, {"a": value}, {"a": None}]


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("boolean", "1"),
        ("boolean", '"true"'),
        ("int", '"1"'),
        ("int", "1.0"),
        ("int", "true"),
        ("int", "2147483648"),
        ("bigint", "9" * 5000),
        ("double", "1e400"),
        ("double", '"1.5"'),
        ("decimal(5,2)", "1.234"),
        ("decimal(5,2)", "NaN"),
        ("decimal(5,2)", "true"),
        ("string", "1"),
        ("string", '"\\ud800"'),
        ("string", '{"x": 1.5, "y": [1, true]}'),
        ("date", "20240131"),
        ("date", '"soon"'),
        ("timestamp", "1706702400"),
        ("array<int>", "1"),
        ("array<int>", '[1, "2"]'),
        ("array<timestamp>", '["0000-01-01T00:00:00"]'),
        ("map<string,int>", "[]"),
        ("map<string,int>", '{"a": true}'),
        ("map<int,int>", '{"a": 1}'),
        ("map<array<int>,int>", '{"a": 1}'),
        ("map<string,date>", '{"a": "0000-01-01"}'),
        ("struct<x: int>", '{"y": 1}'),
        ("struct<x: int not null>", "{}"),
        ("map<string,struct<x: int not null>>", '{"k": {"x": null}}'),
    ],
)
def test_invalid_values_are_reported_with_row_and_column(loader: FileLoader, type: str, text: str) -> None:
    content = "\n".join(['{"a": null}', '{"a": null}', f'{{"a": {text}}}', '{"a": null}', f'{{"a": {text}}}'])
    message = loader.expect_error("a.json", content, f"a {type}")
    assert "row 3, column 'a': expected " in message
    assert ", but " in message


def test_the_field_of_a_struct_is_named(loader: FileLoader) -> None:
    assert "its field 'x' is NULL" in loader.expect_error("a.jsonl", '{"a": {"x": null}}', "a struct<x: int not null>")
    assert "it has the unknown field 'z'" in loader.expect_error("a.jsonl", '{"a": {"z": 1}}', "a struct<x: int>")


@pytest.mark.parametrize("line", ["{", '{"a": 1,}', "nonsense", '{"a": 1} {"a": 2}', '{"a": 1, "a": 2}', "[" * 100_000])
def test_invalid_json_is_reported(loader: FileLoader, line: str) -> None:
    assert "row 2 is not valid JSON" in loader.expect_error("a.jsonl", f'{{"a": 1}}\n\n{line}\n', "a int")


@pytest.mark.parametrize("line", ["[1]", "1", '"x"', "null", "true"])
def test_a_line_must_be_an_object(loader: FileLoader, line: str) -> None:
    message = loader.expect_error("a.jsonl", f'{{"a": 1}}\n{line}\n', "a int")
    assert "row 2 is JSON, but not an object; expected one object per line" in message


def test_invalid_utf8_is_reported(loader: FileLoader) -> None:
    assert "row 2 is not valid UTF-8" in loader.expect_error("a.jsonl", b'{"a": "x"}\n{"a": "\xff"}\n', "a string")


def test_unknown_columns_are_reported(loader: FileLoader) -> None:
    message = loader.expect_error("a.jsonl", '{"a": 1}\n{"a": 1, "x": 2}\n', "a int, b int")
    assert "row 2 has the unknown column 'x'; expected a, b" in message


def test_rows_are_counted_across_chunks(loader: FileLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "_CHUNK_BYTES", 50)
    lines = [json.dumps({"a": n}) for n in range(1, 101)]
    lines[77] = '{"a": "x"}'
    assert "row 78, column 'a'" in loader.expect_error("a.jsonl", "\n".join(lines), "a int")
    lines[76] = "{"
    assert "row 77 is not valid JSON" in loader.expect_error("a.jsonl", "\n".join(lines), "a int")
