"""Spark types as Arrow types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidemill.encoding.arrow_types import to_arrow_field
from tidemill.model.schema import Schema


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        ("boolean", pa.bool_()),
        ("byte", pa.int8()),
        ("smallint", pa.int16()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(10, 0)),
        ("decimal(5)", pa.decimal128(5, 0)),
        ("decimal(38,18)", pa.decimal128(38, 18)),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ltz", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("array<decimal>", pa.list_(pa.decimal128(10, 0))),
        ("map<string,array<int>>", pa.map_(pa.string(), pa.list_(pa.int32()))),
        (
            "struct<`a b`: int not null, c: struct<d: date>>",
            pa.struct([("a b", pa.int32()), ("c", pa.struct([("d", pa.date32())]))]),
        ),
    ],
)
def test_each_type_is_converted(type: str, expected: pa.DataType) -> None:
    assert to_arrow_field(Schema.from_ddl(f"x {type}").get_field("x")) == pa.field("x", expected)


def test_not_null_columns_are_not_nullable() -> None:
    assert not to_arrow_field(Schema.from_ddl("x int not null").get_field("x")).nullable
