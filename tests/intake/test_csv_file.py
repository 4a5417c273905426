"""CSV files."""

from __future__ import annotations

import gzip
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan

import pytest
from tests.intake.file_loader import FileLoader

from tidemill.intake import csv_file


def load_cell(loader: FileLoader, type: str, text: str) -> object:
    return loader.rows("one.csv", f"a,b\n{text},x\n", f"a {type}, b string")[0]["a"]


def test_columns_are_matched_by_name_and_stored_in_the_schemas_order(loader: FileLoader) -> None:
    assert loader.rows("a.csv", "b,a\nx,1\ny,2\n", "a int, b string") == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert list(loader.read_stored()[0]) == ["a", "b"]


def test_an_empty_field_is_null_and_a_quoted_one_an_empty_text(loader: FileLoader) -> None:
    assert loader.rows("a.csv", 'a,b\n,""\n"",\n', "a string, b string") == [{"a": None, "b": ""}, {"a": "", "b": None}]


def test_quoted_fields_may_contain_commas_newlines_and_quotes(loader: FileLoader) -> None:
    assert loader.rows("a.csv", 'a,b\r\n"x, ""y""\r\nz",1\r\n', "a string, b int") == [{"a": 'x, "y"\r\nz', "b": 1}]


def test_blank_lines_are_ignored_in_a_file_with_several_columns(loader: FileLoader) -> None:
    assert [row["a"] for row in loader.rows("a.csv", "a,b\n\n1,2\n\n3,4\n\n", "a int, b int")] == [1, 3]


def test_blank_lines_are_nulls_in_a_file_with_one_column(loader: FileLoader) -> None:
    assert [row["a"] for row in loader.rows("a.csv", "a\n1\n\n2\n", "a int")] == [1, None, 2]


@pytest.mark.parametrize("content", ["a,b\n", "a,b", "a,b\r\n", "\ufeffa,b\n", "a,b\n\n"])
def test_a_header_alone_is_an_empty_insert(loader: FileLoader, content: str) -> None:
    assert loader.rows("a.csv", content, "a int, b int") == []
    assert list(loader.out.iterdir()) == []


def test_a_byte_order_mark_is_not_part_of_the_first_name(loader: FileLoader) -> None:
    assert loader.rows("a.csv", '\ufeff"a",b\n1,2', "a int, b int") == [{"a": 1, "b": 2}]


def test_compressed_files_are_read(loader: FileLoader) -> None:
    assert loader.rows("a.csv.gz", gzip.compress(b"a\n1\n2\n"), "a int") == [{"a": 1}, {"a": 2}]


def test_damaged_compression_is_reported(loader: FileLoader) -> None:
    compressed = gzip.compress(b"a\n" + b"".join(b"%d\n" % (n * n) for n in range(100_000)))
    assert "compression is damaged" in loader.expect_error("a.csv.gz", compressed[:-50], "a bigint")
    assert "cannot read" in loader.expect_error("b.csv.gz", b"a\n1\n", "a int")


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("boolean", "1", True),
        ("boolean", "0", False),
        ("tinyint", "-128", -128),
        ("smallint", "+32767", 32767),
        ("int", "007", 7),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("float", "1.5", 1.5),
        ("double", "-1e300", -1e300),
        ("double", ".5", 0.5),
        ("double", "Infinity", float("inf")),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("decimal(5,2)", "0000000123.4500000", Decimal("123.45")),
        ("decimal(5,2)", "1.2345e2", Decimal("123.45")),
        ("decimal(5,2)", "-.5", Decimal("-0.50")),
        ("decimal(2,2)", "0.12", Decimal("0.12")),
        ("decimal(38,2)", f"0.{'0' * 60}", Decimal("0.00")),
        ("string", "ü 漢 😀", "ü 漢 😀"),
        ("string", "NULL", "NULL"),
        ("binary", "AP8=", b"\x00\xff"),
        ("date", "0001-01-01", date(1, 1, 1)),
        ("date", "9999-12-31", date(9999, 12, 31)),
        ("timestamp", "2024-01-31", datetime(2024, 1, 31, tzinfo=UTC)),
        ("timestamp", "2024-01-31 12:30", datetime(2024, 1, 31, 12, 30, tzinfo=UTC)),
        ("timestamp", "2024-01-31T12:30:00.123456", datetime(2024, 1, 31, 12, 30, 0, 123456, UTC)),
        ("timestamp", "2024-01-31T12:30:00.123456000Z", datetime(2024, 1, 31, 12, 30, 0, 123456, UTC)),
        ("timestamp", "2024-01-31T12:30:00+02:00", datetime(2024, 1, 31, 10, 30, tzinfo=UTC)),
        ("timestamp", "2024-01-31 12:30:00-0130", datetime(2024, 1, 31, 14, tzinfo=UTC)),
        ("timestamp_ntz", "2024-01-31T12:30:00", datetime(2024, 1, 31, 12, 30)),
    ],
)
def test_values_of_each_type_are_loaded(loader: FileLoader, type: str, text: str, value: object) -> None:
    assert load_cell(loader, type, text) == value


def test_nan_is_a_double(loader: FileLoader) -> None:
    value = load_cell(loader, "double", "NaN")
    assert isinstance(value, float)
    assert isnan(value)


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("boolean", "yes"),
        ("boolean", "2"),
        ("tinyint", "128"),
        ("int", "abc"),
        ("int", "1.0"),
        ("int", "1e3"),
        ("int", "0x10"),
        ("int", " 1"),
        ("int", "true"),
        ("bigint", "9223372036854775808"),
        ("float", "1e39"),
        ("double", "1e309"),
        ("double", "1,5"),
        ("double", "1_000"),
        ("decimal(5,2)", "1234.5"),
        ("decimal(5,2)", "1.234"),
        ("decimal(5,2)", "1e999999"),
        ("decimal(5,2)", "NaN"),
        ("decimal(38,0)", "1701411834604692317316873037158841057271"),
        ("binary", "no base64!"),
        ("date", "2023-02-29"),
        ("date", "31.1.2024"),
        ("date", "0000-01-01"),
        ("date", "2024-01-31T00:00:00"),
        ("timestamp", "yesterday"),
        ("timestamp", "2024-01-31T25:00:00"),
        ("timestamp", "2024-01-31T12:00:00.1234567"),
        ("timestamp", "0001-01-01T00:00:00+01:00"),
        ("timestamp_ntz", "2024-01-31T12:30:00Z"),
    ],
)
def test_invalid_values_are_reported_with_row_column_and_type(loader: FileLoader, type: str, text: str) -> None:
    message = loader.expect_error("a.csv", f'b,a\nx,\nx,\nx,"{text}"\nx,"{text}"\n', f"a {type}, b string")
    assert "row 3, column 'a': expected " in message
    assert f"'{text}'" not in message
    assert type.upper().split("(")[0] in message
    assert message.endswith("Nothing was inserted")


def test_the_message_describes_the_type(loader: FileLoader) -> None:
    message = loader.expect_error("a.csv", "a\n300\n", "a tinyint")
    assert "expected TINYINT (a whole number from -128 to 127), but the value is invalid" in message


def test_long_values_are_shortened(loader: FileLoader) -> None:
    assert len(loader.expect_error("a.csv", "a\n" + "x" * 1000, "a int")) < 400


def test_invalid_utf8_is_reported(loader: FileLoader) -> None:
    message = loader.expect_error("a.csv", b"a,b\nx,1\n\xff\xfe,2\n", "a string, b int")
    assert "row 2, column 'a': expected STRING (UTF-8 text), but the value is invalid" in message


def test_invalid_utf8_in_the_header_is_reported(loader: FileLoader) -> None:
    assert "its header cannot be read" in loader.expect_error("a.csv", b"a,\xff\n1,2\n", "a int, b int")


@pytest.mark.parametrize("content", ["", "\n1\n", "\ufeff"])
def test_a_missing_header_is_reported(loader: FileLoader, content: str) -> None:
    assert "it has no header; expected the names of the columns" in loader.expect_error("a.csv", content, "a int")


def test_missing_columns_are_listed_with_the_existing_ones(loader: FileLoader) -> None:
    message = loader.expect_error("a.csv", "a,x\n1,2\n", "a int, b int, c int")
    assert "columns b, c are missing; it has a, x" in message


def test_extra_columns_are_reported(loader: FileLoader) -> None:
    assert "column x is unknown; expected a" in loader.expect_error("a.csv", "a,x\n1,2\n", "a int")


def test_a_duplicate_column_is_reported(loader: FileLoader) -> None:
    assert "column 'a' occurs twice" in loader.expect_error("a.csv", "a,a\n1,2\n", "a int")


@pytest.mark.parametrize(("line", "count"), [(b"3", 1), (b"3,4,5", 3), (b"\xff", 1)])
def test_rows_of_another_width_are_reported(loader: FileLoader, line: bytes, count: int) -> None:
    message = loader.expect_error("a.csv", b'a,b\n1,"2\n"\n\n' + line + b"\n", "a int, b string")
    assert f"row 2 (line 5) has {count} values, the header has 2." in message


@pytest.mark.parametrize("line", ['3,"4', '"3,4', '"3,4\n5,6'])
def test_an_unclosed_quote_is_reported(loader: FileLoader, line: str) -> None:
    message = loader.expect_error("a.csv", f"a,b\n1,2\n{line}\n", "a string, b string")
    assert "row 2 (line 3) has a quote that is unclosed or misplaced" in message


def test_an_unclosed_quote_in_a_large_file_is_reported(loader: FileLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", 64)
    message = loader.expect_error("a.csv", 'a,b\n1,2\n"3,4\n' + "5,6\n" * 100, "a string, b string")
    assert "row 2 (line 3) has a quote that is unclosed" in message


def test_a_row_that_is_too_long_is_reported(loader: FileLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", 64)
    message = loader.expect_error("a.csv", f"a,b\n1,2\n{'x' * 1000},3\n", "a string, b string")
    assert "it cannot be read as CSV" in message


def test_long_values_do_not_hide_the_misshapen_row(loader: FileLoader) -> None:
    message = loader.expect_error("a.csv", f"a,b\n{'x' * 200_000},2\n3\n", "a string, b int")
    assert "row 2 (line 3) has 1 values" in message


def test_an_early_error_in_a_large_file_is_reported(loader: FileLoader) -> None:
    content = "a,b\nx,y\n" + "1,2\n" * 5_000_000
    assert "row 1, column 'a'" in loader.expect_error("a.csv", content, "a int, b string")


def test_rows_are_counted_across_blocks(loader: FileLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", 64)
    lines = [f'{n},"x\n{n}"' for n in range(1, 101)]
    assert len(loader.rows("a.csv", "a,b\n" + "\n".join(lines), "a int, b string")) == 100
    lines[77] = 'oops,"x\n"'
    (loader.out / "part-00000.parquet").unlink()
    assert "row 78, column 'a'" in loader.expect_error("a.csv", "a,b\n" + "\n".join(lines), "a int, b string")


@pytest.mark.parametrize("type", ["array<int>", "map<string,int>", "struct<x: int>"])
def test_nested_types_are_rejected(loader: FileLoader, type: str) -> None:
    message = loader.expect_error("a.csv", "a\n1\n", f"a {type}")
    assert "CSV cannot hold column 'a'" in message
    assert "use JSON lines or Parquet" in message
