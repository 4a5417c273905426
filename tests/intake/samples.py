"""Random tables, and how they are written in each format."""

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
    """A type with its values, and how one of them is written in JSON (in CSV: what stands in the quotes)."""

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
    def expected(self) -> list[dict[str, Any]]:
        return [dict(zip(self.schema.names, map(comparable, row), strict=True)) for row in self.rows]

    def csv_cells(self) -> list[list[str]]:
        return [[csv_cell(k, v) for k, v in zip(self.kinds, row, strict=True)] for row in self.rows]

    def json_cells(self) -> list[list[str]]:
        return [[json_cell(k, v) for k, v in zip(self.kinds, row, strict=True)] for row in self.rows]


def ints(type: str, bits: int) -> Kind:
    return Kind(type, st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), str)


def floats(type: str, width: int) -> Kind:
    return Kind(type, st.floats(width=width), lambda v: repr(v) if isfinite(v) else json.dumps(v))


def decimals(precision: int, scale: int) -> Kind:
    most = 10**precision - 1
    values = st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale) if precision < 28 else exact(n, scale))
    return Kind(f"decimal({precision},{scale})", values, lambda v: format(v, "f"))


def exact(unscaled: int, scale: int) -> Decimal:
    """Without the rounding of the default context."""
    return Decimal((int(unscaled < 0), tuple(int(d) for d in str(abs(unscaled))), -scale))


TEXT = Kind("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=8), json.dumps)
DATE = Kind("date", st.dates(), lambda v: f'"{v.isoformat()}"')
INT = ints("int", 32)

FLAT = (
    Kind("boolean", st.booleans(), json.dumps),
    ints("tinyint", 8),
    ints("smallint", 16),
    INT,
    ints("bigint", 64),
    floats("float", 32),
    floats("double", 64),
    decimals(5, 2),
    decimals(38, 18),
    decimals(38, 0),
    TEXT,
    Kind("binary", st.binary(max_size=8), lambda v: f'"{b64encode(v).decode()}"'),
    DATE,
    Kind("timestamp", st.datetimes(timezones=st.just(UTC)), lambda v: f'"{v.isoformat()}"'),
    Kind("timestamp_ntz", st.datetimes(), lambda v: f'"{v.isoformat()}"'),
)


def array_of(inner: Kind) -> Kind:
    values = st.lists(st.none() | inner.values, max_size=3)
    return Kind(f"array<{inner.type}>", values, lambda v: f"[{', '.join(json_cell(inner, x) for x in v)}]")


def map_of(key: Kind, inner: Kind) -> Kind:
    values = st.lists(st.tuples(key.values, st.none() | inner.values), max_size=3, unique_by=lambda pair: pair[0])
    return Kind(
        f"map<{key.type},{inner.type}>",
        values,
        lambda v: json_object([(text(key, k), json_cell(inner, x)) for k, x in v]),
    )


def struct_of(inner: Sequence[Kind]) -> Kind:
    names = [f"f{i}" for i in range(len(inner))]
    values = st.fixed_dictionaries({n: st.none() | k.values for n, k in zip(names, inner, strict=True)})
    ddl = ", ".join(f"{n}: {k.type}" for n, k in zip(names, inner, strict=True))
    return Kind(
        f"struct<{ddl}>",
        values,
        lambda v: json_object([(n, json_cell(k, v[n])) for n, k in zip(names, inner, strict=True)]),
    )


def json_object(pairs: Sequence[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in pairs) + "}"


def nested(inner: SearchStrategy[Kind]) -> SearchStrategy[Kind]:
    return (
        inner.map(array_of)
        | st.builds(map_of, st.sampled_from([TEXT, DATE, INT]), inner)
        | st.lists(inner, min_size=1, max_size=3).map(struct_of)
    )


flat_kinds = st.sampled_from(FLAT)
all_kinds = st.recursive(flat_kinds, nested, max_leaves=3)


@st.composite
def samples(draw: st.DrawFn, kinds: SearchStrategy[Kind], min_rows: int = 0) -> Sample:
    chosen = tuple(draw(st.lists(kinds, min_size=1, max_size=len(NAMES))))
    row = st.tuples(*(st.none() | kind.values for kind in chosen))
    return Sample(chosen, tuple(draw(st.lists(row, min_size=min_rows, max_size=8))))


def text(kind: Kind, value: Any) -> str:
    written = kind.json(value)
    return str(json.loads(written)) if written.startswith('"') else written


def csv_cell(kind: Kind, value: Any) -> str:
    return "" if value is None else '"' + text(kind, value).replace('"', '""') + '"'


def json_cell(kind: Kind, value: Any) -> str:
    return "null" if value is None else kind.json(value)


def write_csv(path: Path, names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    header = [f'"{name}"' for name in names]
    path.write_bytes("".join(",".join(row) + "\n" for row in [header, *cells]).encode())


def write_json(path: Path, names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    path.write_text("".join(json_object(list(zip(names, row, strict=True))) + "\n" for row in cells))


def write_parquet(path: Path, schema: Schema, rows: Sequence[Sequence[Any]]) -> None:
    columns = list(zip(*rows, strict=True)) or [() for _ in schema]
    arrays = [pa.array(c, to_arrow_type(f.data_type)) for f, c in zip(schema, columns, strict=True)]
    pq.write_table(pa.table(arrays, names=list(schema.names)), path)


def comparable(value: Any) -> Any:
    """Equal if the values are the same to Spark, for which NaN equals itself."""
    if isinstance(value, float):
        return "NaN" if isnan(value) else value
    if isinstance(value, list | tuple):
        return type(value)(comparable(v) for v in value)
    return {k: comparable(v) for k, v in value.items()} if isinstance(value, dict) else value


def not_null(schema: Schema, name: str) -> Schema:
    return Schema(tuple(Field(f.name, f.type, f.nullable and f.name != name) for f in schema))
