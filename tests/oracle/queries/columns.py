"""Column types, and the few values each may take: few, so that groups collide, keys match and rows repeat."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any


class Type(StrEnum):
    """The type of a column; the name is used in the grammar's templates, the value is Spark's DDL."""

    INT = "int"
    BIGINT = "bigint"
    DOUBLE = "double"
    DECIMAL = "decimal(12, 2)"
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    STRUCT = "struct<x: int, y: string>"
    ARRAY = "array<int>"
    BINARY = "binary"

    @property
    def scalar(self) -> bool:
        """Whether both engines compare and order it in the same way."""
        return self not in (Type.STRUCT, Type.ARRAY, Type.BINARY)


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a query can see.

    It is `exact` if both engines compute the very same value, however the rows arrive. An average or a
    variance is not: such columns are only selected and never compared, grouped or summed.
    """

    name: str
    type: Type
    exact: bool = True
    within: str = ""  # its relation; empty if USING merged two columns

    @property
    def text(self) -> str:
        return f"{self.within}.{self.name}" if self.within else self.name

    @property
    def fields(self) -> Columns:
        """The fields of a struct, as columns."""
        of = ((("x", Type.INT), ("y", Type.STRING))) if self.type is Type.STRUCT else ()
        return tuple(Column(name, type, self.exact, within=self.text) for name, type in of)

    @property
    def is_field(self) -> bool:
        return "." in self.within


Columns = tuple[Column, ...]

_UTC = dt.UTC

VALUES: Mapping[Type, tuple[Any, ...]] = {
    Type.INT: (1, 1, 1, 2, 3, 0, -4, None),
    Type.BIGINT: (1, 1, 7, 10**12, -5, None),
    # Sums of these are exact in any order, so that rounding cannot explain a difference.
    Type.DOUBLE: (1.5, 1.5, 0.25, -2.0, 100.0, 0.0, -0.0, math.nan, math.inf, -math.inf, None),
    Type.DECIMAL: (Decimal("1.10"), Decimal("1.10"), Decimal("0.01"), Decimal("-2.50"), Decimal("99.99"), None),
    Type.STRING: ("a", "a", "b", "Ab", "", "é c", None),
    Type.BOOLEAN: (True, False, None),
    Type.DATE: (dt.date(2024, 2, 29), dt.date(2024, 2, 29), dt.date(2023, 12, 31), dt.date(1969, 7, 20), None),
    Type.TIMESTAMP: (
        dt.datetime(2024, 2, 29, 12, 30, tzinfo=_UTC),
        dt.datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=_UTC),
        dt.datetime(2023, 1, 1, tzinfo=_UTC),
        None,
    ),
    Type.STRUCT: ({"x": 1, "y": "a"}, {"x": 1, "y": None}, {"x": None, "y": None}, None),
    Type.ARRAY: ([1, 1, 2], [1], [], [None, 3], None),
    Type.BINARY: (b"a", b"a", b"\x00\xff", b"", None),
}

LITERALS: Mapping[Type, tuple[str, ...]] = {
    Type.INT: ("1", "2", "0", "-3"),
    Type.BIGINT: ("CAST(1 AS BIGINT)", "CAST(7 AS BIGINT)"),
    Type.DOUBLE: ("CAST(1.5 AS DOUBLE)", "CAST(-2 AS DOUBLE)", "CAST(0 AS DOUBLE)"),
    Type.DECIMAL: ("CAST('1.10' AS DECIMAL(12, 2))", "CAST('0.05' AS DECIMAL(12, 2))"),
    Type.STRING: ("'a'", "'b'", "''", "'Ab'"),
    Type.BOOLEAN: ("TRUE", "FALSE"),
    Type.DATE: ("DATE '2024-02-29'", "DATE '2023-12-31'"),
    Type.TIMESTAMP: ("TIMESTAMP '2024-02-29 12:30:00'", "TIMESTAMP '2023-01-01 00:00:00'"),
    Type.STRUCT: ("CAST(NULL AS STRUCT<x: INT, y: STRING>)", "named_struct('x', 1, 'y', 'a')"),
    Type.ARRAY: ("CAST(NULL AS ARRAY<INT>)", "array(1, 2)"),
    Type.BINARY: ("CAST(NULL AS BINARY)", "X'61'"),
}

SCALARS = tuple(t for t in Type if t.scalar)
