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
from tests.intake.inserting import Desk

from tidemill.intake import parquet_file
from tidemill.model.schema import Schema

MIDNIGHT = datetime(2024, 1, 31, tzinfo=UTC)
POINT = {"x": 1, "y": "z"}


def written(desk: Desk, values: Sequence[Any], type: pa.DataType, **options: object) -> Path:
    path = desk.folder / "in.parquet"
    pq.write_table(pa.table({"a": pa.array(values, type)}), path, **options)
    return path


@pytest.mark.parametrize(
    ("found", "value", "type", "stored"),
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
def test_types_that_widen(desk: Desk, found: pa.DataType, value: object, type: str, stored: object) -> None:
    desk.load(written(desk, [value, None], found), f"a {type}")
    assert desk.stored() == [{"a": stored}, {"a": None}]


@pytest.mark.parametrize(
    ("found", "type"),
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
def test_types_that_do_not_widen(desk: Desk, found: pa.DataType, type: str) -> None:
    message = desk.refusal(written(desk, [None], found), f"a {type}")
    assert "column 'a' is " in message
    assert f"expected {Schema.from_ddl(f'a {type}').get_field('a').type} or a type that widens to it" in message


def test_nanoseconds_that_would_be_lost(desk: Desk) -> None:
    path = written(desk, [1000, 2000, 2001], pa.timestamp("ns"))
    assert "row 3, column 'a': expected TIMESTAMP" in desk.refusal(path, "a timestamp")


def test_years_beyond_spark(desk: Desk) -> None:
    path = written(desk, [None, 2_932_897], pa.date32())
    assert "row 2, column 'a': expected DATE" in desk.refusal(path, "a date")


def test_old_timestamps_in_twelve_bytes(desk: Desk) -> None:
    path = written(desk, [datetime(1500, 1, 1)], pa.timestamp("us"), use_deprecated_int96_timestamps=True)
    desk.load(path, "a timestamp")
    assert desk.stored() == [{"a": datetime(1500, 1, 1, tzinfo=UTC)}]


def test_null_in_a_struct_whose_field_is_not_null(desk: Desk) -> None:
    kind = pa.struct([("x", pa.int32())])
    desk.load(written(desk, [{"x": 1}, None], kind), "a struct<x: int not null>")
    assert desk.stored() == [{"a": {"x": 1}}, {"a": None}]
    (desk.out / "part-00000.parquet").unlink()
    message = desk.refusal(written(desk, [{"x": 1}, None, {"x": None}], kind), "a struct<x: int not null>")
    assert "row 3, column 'a'" in message
    assert "its field 'x' is NULL" in message


def test_text_that_is_not_utf8(desk: Desk) -> None:
    path = desk.folder / "in.parquet"
    wrong = pa.array([b"x", b"\xff\xfe"]).view(pa.string())
    pq.write_table(pa.table({"a": wrong}), path)
    assert "row 2, column 'a': expected STRING (UTF-8 text)" in desk.refusal(path, "a string")


def test_missing_and_extra_columns(desk: Desk) -> None:
    path = written(desk, [1], pa.int32())
    assert "column b is missing; it has a" in desk.refusal(path, "a int, b int")
    assert "column b is missing; it has a" in desk.refusal(path, "b int")
    pq.write_table(pa.table({"a": [1], "x": [1]}), path)
    assert "column x is unknown; expected a" in desk.refusal(path, "a bigint")


def test_no_rows(desk: Desk) -> None:
    assert desk.load(written(desk, [], pa.int32()), "a int").rows == 0
    assert list(desk.out.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all"])
def test_what_is_no_parquet(desk: Desk, content: bytes) -> None:
    assert "it cannot be read as Parquet" in desk.complaint("in.parquet", content, "a int")


def test_a_truncated_file(desk: Desk) -> None:
    path = written(desk, list(range(1000)), pa.int32())
    path.write_bytes(path.read_bytes()[:-100])
    assert "it cannot be read as Parquet" in desk.refusal(path, "a int")


def test_a_damaged_page(desk: Desk) -> None:
    path = written(desk, ["needle"] * 10, pa.string(), compression="none", write_page_checksum=True)
    path.write_bytes(path.read_bytes().replace(b"needle", b"noodle", 1))
    assert "it cannot be read as Parquet" in desk.refusal(path, "a string")


def test_rows_are_counted_across_batches(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "_BATCH_ROWS", 10)
    nanoseconds = [n * 1000 for n in range(100)]
    desk.load(written(desk, nanoseconds, pa.timestamp("ns"), row_group_size=25), "a timestamp")
    assert len(desk.stored()) == 100
    (desk.out / "part-00000.parquet").unlink()
    nanoseconds[77] += 1
    assert "row 78" in desk.refusal(written(desk, nanoseconds, pa.timestamp("ns"), row_group_size=25), "a timestamp")
