"""Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.intake.file_loader import FileLoader

from tidemill.intake import parquet_file
from tidemill.model.schema import Schema

MIDNIGHT = datetime(2024, 1, 31, tzinfo=UTC)
POINT = {"x": 1, "y": "z"}


def write_column(loader: FileLoader, values: Sequence[Any], type: pa.DataType, **options: object) -> Path:
    path = loader.folder / "in.parquet"
    pq.write_table(pa.table({"a": pa.array(values, type)}), path, **options)
    return path


@pytest.mark.parametrize(
    ("file_type", "value", "type", "stored"),
    [
        (pa.int8(), 1, "bigint", 1),
        (pa.uint8(), 255, "smallint", 255),
        (pa.uint32(), 2**32 - 1, "bigint", 2**32 - 1),
        (pa.float32(), 1.5, "double", 1.5),
        (pa.int32(), 7, "double", 7.0),
        (pa.int16(), 7, "float", 7.0),
        (pa.int32(), 7, "decimal(12,2)", Decimal("7.00")),
        (pa.decimal128(5, 2), Decimal("1.50"), "decimal(10,4)", Decimal("1.5000")),
        (pa.large_string(), "x", "string", "x"),
        (pa.dictionary(pa.int32(), pa.string()), "x", "string", "x"),
        (pa.large_binary(), b"x", "binary", b"x"),
        (pa.binary(1), b"x", "binary", b"x"),
        (pa.date64(), date(2024, 1, 31), "date", date(2024, 1, 31)),
        (pa.timestamp("ms"), datetime(2024, 1, 31), "timestamp", datetime(2024, 1, 31, tzinfo=UTC)),
        (pa.timestamp("ns"), datetime(2024, 1, 31), "timestamp_ntz", datetime(2024, 1, 31)),
        (
            pa.timestamp("us", "Asia/Tokyo"),
            datetime(2024, 1, 31, tzinfo=UTC),
            "timestamp",
            datetime(2024, 1, 31, tzinfo=UTC),
        ),
        (pa.null(), None, "struct<x: int>", None),
        (pa.large_list(pa.int8()), [1, None], "array<int>", [1, None]),
        (pa.map_(pa.string(), pa.int8()), [("k", 1)], "map<string,bigint>", [("k", 1)]),
        (
            pa.struct([("y", pa.string()), ("x", pa.int8())]),
            {"x": 1, "y": "z"},
            "struct<x: int, y: string>",
            {"x": 1, "y": "z"},
        ),
    ],
)
def test_types_are_widened(
    loader: FileLoader, file_type: pa.DataType, value: object, type: str, stored: object
) -> None:
    loader.load(write_column(loader, [value, None], file_type), f"a {type}")
    assert loader.read_stored() == [{"a": stored}, {"a": None}]


@pytest.mark.parametrize(
    ("file_type", "type"),
    [
        (pa.int64(), "int"),
        (pa.uint64(), "bigint"),
        (pa.int64(), "double"),
        (pa.int32(), "float"),
        (pa.float64(), "float"),
        (pa.float64(), "bigint"),
        (pa.float64(), "decimal(10,2)"),
        (pa.int32(), "decimal(10,2)"),
        (pa.decimal128(10, 2), "decimal(10,4)"),
        (pa.decimal128(10, 2), "decimal(10,1)"),
        (pa.string(), "int"),
        (pa.string(), "date"),
        (pa.string(), "binary"),
        (pa.binary(), "string"),
        (pa.bool_(), "int"),
        (pa.int8(), "boolean"),
        (pa.date32(), "timestamp"),
        (pa.int64(), "timestamp"),
        (pa.timestamp("us", "UTC"), "timestamp_ntz"),
        (pa.time64("us"), "timestamp"),
        (pa.list_(pa.string()), "array<int>"),
        (pa.string(), "array<string>"),
        (pa.struct([("x", pa.int32())]), "struct<y: int>"),
        (pa.struct([("x", pa.int32())]), "struct<x: int, y: int>"),
        (pa.map_(pa.string(), pa.string()), "map<string,int>"),
    ],
)
def test_types_that_do_not_widen_are_rejected(loader: FileLoader, file_type: pa.DataType, type: str) -> None:
    message = loader.expect_rejection(write_column(loader, [None], file_type), f"a {type}")
    assert "column 'a' is " in message
    assert f"expected {Schema.from_ddl(f'a {type}').get_field('a').type} or a type that widens to it" in message


def test_nanoseconds_that_would_be_lost_are_rejected(loader: FileLoader) -> None:
    path = write_column(loader, [1000, 2000, 2001], pa.timestamp("ns"))
    assert "row 3, column 'a': expected TIMESTAMP" in loader.expect_rejection(path, "a timestamp")


def test_years_outside_of_sparks_range_are_rejected(loader: FileLoader) -> None:
    path = write_column(loader, [None, 2_932_897], pa.date32())
    assert "row 2, column 'a': expected DATE" in loader.expect_rejection(path, "a date")


def test_int96_timestamps_are_loaded(loader: FileLoader) -> None:
    path = write_column(loader, [datetime(1500, 1, 1)], pa.timestamp("us"), use_deprecated_int96_timestamps=True)
    loader.load(path, "a timestamp")
    assert loader.read_stored() == [{"a": datetime(1500, 1, 1, tzinfo=UTC)}]


def test_null_in_a_not_null_field_of_a_struct_is_rejected(loader: FileLoader) -> None:
    kind = pa.struct([("x", pa.int32())])
    loader.load(write_column(loader, [{"x": 1}, None], kind), "a struct<x: int not null>")
    assert loader.read_stored() == [{"a": {"x": 1}}, {"a": None}]
    (loader.out / "part-00000.parquet").unlink()
    message = loader.expect_rejection(
        write_column(loader, [{"x": 1}, None, {"x": None}], kind), "a struct<x: int not null>"
    )
    assert "row 3, column 'a'" in message
    assert "its field 'x' is NULL" in message


def test_text_that_is_not_utf8_is_rejected(loader: FileLoader) -> None:
    path = loader.folder / "in.parquet"
    wrong = pa.array([b"x", b"\xff\xfe"]).view(pa.string())
    pq.write_table(pa.table({"a": wrong}), path)
    assert "row 2, column 'a': expected STRING (UTF-8 text)" in loader.expect_rejection(path, "a string")


def test_missing_and_extra_columns_are_reported(loader: FileLoader) -> None:
    path = write_column(loader, [1], pa.int32())
    assert "column b is missing; it has a" in loader.expect_rejection(path, "a int, b int")
    assert "column b is missing; it has a" in loader.expect_rejection(path, "b int")
    pq.write_table(pa.table({"a": [1], "x": [1]}), path)
    assert "column x is unknown; expected a" in loader.expect_rejection(path, "a bigint")


def test_no_rows(loader: FileLoader) -> None:
    assert loader.load(write_column(loader, [], pa.int32()), "a int").rows == 0
    assert list(loader.out.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all"])
def test_other_content_is_rejected(loader: FileLoader, content: bytes) -> None:
    assert "it cannot be read as Parquet" in loader.expect_error("in.parquet", content, "a int")


def test_a_truncated_file_is_rejected(loader: FileLoader) -> None:
    path = write_column(loader, list(range(1000)), pa.int32())
    path.write_bytes(path.read_bytes()[:-100])
    assert "it cannot be read as Parquet" in loader.expect_rejection(path, "a int")


def test_a_damaged_page_is_rejected(loader: FileLoader) -> None:
    path = write_column(loader, ["needle"] * 10, pa.string(), compression="none", write_page_checksum=True)
    path.write_bytes(path.read_bytes().replace(b"needle", b"noodle", 1))
    assert "it cannot be read as Parquet" in loader.expect_rejection(path, "a string")


def test_rows_are_counted_across_batches(loader: FileLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "_BATCH_ROWS", 10)
    nanoseconds = [n * 1000 for n in range(100)]
    loader.load(write_column(loader, nanoseconds, pa.timestamp("ns"), row_group_size=25), "a timestamp")
    assert len(loader.read_stored()) == 100
    (loader.out / "part-00000.parquet").unlink()
    nanoseconds[77] += 1
    assert "row 78" in loader.expect_rejection(
        write_column(loader, nanoseconds, pa.timestamp("ns"), row_group_size=25), "a timestamp"
    )
