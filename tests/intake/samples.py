"""Random tables, and their text in each format."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tidemill.encoding.arrow_types import to_arrow_type
from tidemill.model.schema import Field, Schema

NAMES = ("a", "b c", "ü", "d.e", "x,y")


@dataclass(frozen=True)
class Kind:
    """A type with its values and their JSON text (in CSV: the quoted text)."""

    type: str
    values: SearchStrategy[Any]
    json: Callable[[Any], str]


@dataclass(frozen=True)
class Sample:
    kinds: tuple[Kind, ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def schema(self) -> Schema:
        return Schema.from_ddl(", ".join(f"`{n}` {k.type}" for n, k in zip(NAMES, self.kinds, strict=False)))

    @property
    def expected_rows(self) -> list[dict[str, Any]]:
        return [dict(zip(self.schema.names, map(to_comparable, row), strict=True)) for row in self.rows]

    def csv_cells(self) -> list[list[str]]:
        return [[to_csv_cell(k, v) for k, v in zip(self.kinds, row, strict=True)] for row in self.rows]

    def json_cells(self) -> list[list[str]]:
        return [[to_json_cell(k, v) for k, v in zip(self.kinds, row, strict=True)] for row in self.rows]


def build_ints(type: str, bits: int) -> Kind:
    return Kind(type, st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), str)


def build_floats(type: str, width: int) -> Kind:
    return Kind(type, st.floats(width=width), lambda v: repr(v) if isfinite(v) else json.dumps(v))


def build_decimals(precision: int, scale: int) -> Kind:
    largest = 10**precision - 1
    values = st.integers(-largest, largest).map(
        lambda n: Decimal(n).scaleb(-scale) if precision < 28 else build_decimal(n, scale)
    )
    return Kind(f"decimal({precision},{scale})", values, lambda v: format(v, "f"))


def build_decimal(unscaled: int, scale: int) -> Decimal:
    """A decimal without the rounding of the default context."""
    return Decimal((int(unscaled < 0), tuple(int(d) for d in str(abs(unscaled))), -scale))


TEXT = Kind("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=8), json.dumps)
DATE = Kind("date", st.dates(), lambda v: f'"{v.isoformat()}"')
INT = build_ints("int", 32)

FLAT = (
    Kind("boolean", st.booleans(), json.dumps),
    build_ints("tinyint", 8),
    build_ints("smallint", 16),
    INT,
    build_ints("bigint", 64),
    build_floats("float", 32),
    build_floats("double", 64),
    build_decimals(5, 2),
    build_decimals(38, 18),
    build_decimals(38, 0),
    TEXT,
    Kind("binary", st.binary(max_size=8), lambda v: f'"{b64encode(v).decode()}"'),
    DATE,
    Kind("timestamp", st.datetimes(timezones=st.just(UTC)), lambda v: f'"{v.isoformat()}"'),
    Kind("timestamp_ntz", st.datetimes(), lambda v: f'"{v.isoformat()}"'),
)


def build_array(inner: Kind) -> Kind:
    values = st.lists(st.none() | inner.values, max_size=3)
    return Kind(f"array<{inner.type}>", values, lambda v: f"[{', '.join(to_json_cell(inner, x) for x in v)}]")


def build_map(key: Kind, inner: Kind) -> Kind:
    values = st.lists(st.tuples(key.values, st.none() | inner.values), max_size=3, unique_by=lambda pair: pair[0])
    return Kind(
        f"map<{key.type},{inner.type}>",
        values,
        lambda v: to_json_object([(to_text(key, k), to_json_cell(inner, x)) for k, x in v]),
    )


def build_struct(inner: Sequence[Kind]) -> Kind:
    names = [f"f{i}" for i in range(len(inner))]
    values = st.fixed_dictionaries({n: st.none() | k.values for n, k in zip(names, inner, strict=True)})
    ddl = ", ".join(f"{n}: {k.type}" for n, k in zip(names, inner, strict=True))
    return Kind(
        f"struct<{ddl}>",
        values,
        lambda v: to_json_object([(n, to_json_cell(k, v[n])) for n, k in zip(names, inner, strict=True)]),
    )


def to_json_object(pairs: Sequence[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in pairs) + "}"


def nest_kinds(inner: SearchStrategy[Kind]) -> SearchStrategy[Kind]:
    return (
        inner.map(build_array)
        | st.builds(build_map, st.sampled_from([TEXT, DATE, INT]), inner)
        | st.lists(inner, min_size=1, max_size=3).map(build_struct)
    )


flat_kinds = st.sampled_from(FLAT)
all_kinds = st.recursive(flat_kinds, nest_kinds, max_leaves=3)


@st.composite
def samples(draw: st.DrawFn, kinds: SearchStrategy[Kind], min_rows: int = 0) -> Sample:
    chosen = tuple(draw(st.lists(kinds, min_size=1, max_size=len(NAMES))))
    row = st.tuples(*(st.none() | kind.values for kind in chosen))
    return Sample(chosen, tuple(draw(st.lists(row, min_size=min_rows, max_size=8))))


def to_text(kind: Kind, value: Any) -> str:
    encoded = kind.json(value)
    return str(json.loads(encoded)) if encoded.startswith('"') else encoded


def to_csv_cell(kind: Kind, value: Any) -> str:
    return "" if value is None else '"' + to_text(kind, value).replace('"', '""') + '"'


def to_json_cell(kind: Kind, value: Any) -> str:
    return "null" if value is None else kind.json(value)


def write_csv(path: Path, names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    header = [f'"{name}"' for name in names]
    path.write_bytes("".join(",".join(row) + "\n" for row in [header, *cells]).encode())


def write_json(path: Path, names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    path.write_text("".join(to_json_object(list(zip(names, row, strict=True))) + "\n" for row in cells))


def write_parquet(path: Path, schema: Schema, rows: Sequence[Sequence[Any]]) -> None:
    columns = list(zip(*rows, strict=True)) or [() for _ in schema]
    arrays = [pa.array(c, to_arrow_type(f.data_type)) for f, c in zip(schema, columns, strict=True)]
    pq.write_table(pa.table(arrays, names=list(schema.names)), path)


def to_comparable(value: Any) -> Any:
    """A value that compares like in Spark, where NaN equals itself."""
    if isinstance(value, float):
        return "NaN" if isnan(value) else value
    if isinstance(value, list | tuple):
        return type(value)(to_comparable(v) for v in value)
    return {k: to_comparable(v) for k, v in value.items()} if isinstance(value, dict) else value


def make_not_null(schema: Schema, name: str) -> Schema:
    return Schema(tuple(Field(f.name, f.type, f.nullable and f.name != name) for f in schema))
