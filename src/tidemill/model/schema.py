"""Schemas: column names and Spark SQL types, parsed from the DDL text that Spark users write.

Types are stored and compared in one canonical spelling, that of sqlglot, so that `int` and `INTEGER` are the same type
and only the package `spark` needs Spark to describe columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMPLTZ", "TIMESTAMPTZ", "TIMESTAMPNTZ")
_KNOWN = frozenset(exp.DType[n] for n in ("BOOLEAN", *_NUMBERS, "TEXT", "BINARY", *_TIMES, "ARRAY", "MAP", "STRUCT"))
_COLLATE = "COLLATE"
_SPARK_ONLY = frozenset({exp.DType.TIME, exp.DType.VARIANT})
"""Types that Spark computes with and stores in files, but that code outside Spark cannot read."""

_PLAIN_TYPES = "BOOLEAN|TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|STRING|BINARY|DATE|TIMESTAMP"
_PLAIN_FIELD = re.compile(rf"`([^`]+)` ({_PLAIN_TYPES})( NOT NULL)?(?:, (?=`)|$)")
"""A column in the canonical spelling, of a type without parameters."""


@dataclass(frozen=True, slots=True)
class Field:
    """One column."""

    name: str
    type: str  # canonical Spark SQL, e.g. "BIGINT" or "ARRAY<STRING>"
    nullable: bool = True

    @property
    def data_type(self) -> exp.DataType:
        return _parse_type(self.type)

    @property
    def is_groupable(self) -> bool:
        """Whether Spark can group by and compare the column: all types but maps and variants."""
        return not any(d.this in (exp.DType.MAP, exp.DType.VARIANT) for d in self.data_type.find_all(exp.DataType))

    @property
    def is_exchangeable(self) -> bool:
        """Whether values of this type can be read from files and shown without Spark; intervals cannot, for example."""
        known = all(d.this in _KNOWN for d in self.data_type.find_all(exp.DataType))
        return known and _COLLATE not in self.type

    def __str__(self) -> str:
        name = self.name.replace("`", "``")
        return f"`{name}` {self.type}" + ("" if self.nullable else " NOT NULL")


@dataclass(frozen=True, slots=True)
class Schema:
    """An ordered list of columns with distinct names."""

    fields: tuple[Field, ...]

    @classmethod
    def from_ddl(cls, ddl: str) -> Schema:
        """Parse Spark DDL.

        >>> str(Schema.from_ddl("url string, hits int not null"))
        '`url` STRING, `hits` INT NOT NULL'
        """
        fields = _read_plain_fields(ddl) or tuple(_parse_fields(ddl))
        names = [f.name.lower() for f in fields]
        duplicates = sorted({n for n in names if names.count(n) > 1})
        if duplicates:
            raise ValueError(f"column {duplicates[0]!r} is declared twice in {ddl!r}")
        return cls(fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    def __str__(self) -> str:
        return ", ".join(map(str, self.fields))

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __contains__(self, name: object) -> bool:
        return any(f.name == name for f in self.fields)

    def get_field(self, name: str) -> Field:
        return next(f for f in self.fields if f.name == name)

    def select_fields(self, names: Iterable[str]) -> Schema:
        return Schema(tuple(self.get_field(n) for n in names))

    def add_fields(self, *fields: Field) -> Schema:
        return Schema(self.fields + fields)

    def has_same_shape(self, other: Schema) -> bool:
        """Whether names and types are equal, in the same order; nullability may differ."""
        return [(f.name, f.type) for f in self] == [(f.name, f.type) for f in other]

    def describe_difference(self, other: Schema) -> str:
        """The differences from `other` as text for users.

        >>> Schema.from_ddl("a int, b int").describe_difference(Schema.from_ddl("a string, c int"))
        'column a is INT, not STRING; column b is not in it; column c is missing'
        """
        return "; ".join(_list_differences(self.fields, other.fields))


def _list_differences(own_fields: Sequence[Field], other_fields: Sequence[Field]) -> Iterator[str]:
    by_name = {f.name: f for f in other_fields}
    own_names = {f.name for f in own_fields}
    for field in own_fields:
        other = by_name.get(field.name)
        if other is None:
            yield f"column {field.name} is not in it"
        elif other.type != field.type:
            yield f"column {field.name} is {field.type}, not {other.type}"
    yield from (f"column {f.name} is missing" for f in other_fields if f.name not in own_names)


def _read_plain_fields(ddl: str) -> tuple[Field, ...]:
    """Read columns in the canonical spelling, at a fiftieth of the cost of parsing; empty if there are others."""
    fields: list[Field] = []
    position = 0
    while position < len(ddl):
        match = _PLAIN_FIELD.match(ddl, position)
        if match is None:
            return ()
        fields.append(Field(match[1], match[2], nullable=match[3] is None))
        position = match.end()
    return tuple(fields)


def _parse_fields(ddl: str) -> Iterator[Field]:
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({ddl})", dialect="spark")
    except SqlglotError as error:
        raise ValueError(f"not a schema: {ddl!r}; write it like 'url string, hits bigint'") from error
    columns = list(table.this.expressions) if isinstance(table.this, exp.Schema) else []
    if not columns or not all(isinstance(c, exp.ColumnDef) and c.kind for c in columns):
        raise ValueError(f"not a schema: {ddl!r}; write it like 'url string, hits bigint'")
    for column in columns:
        unknown = [d for d in column.kind.find_all(exp.DataType) if not _is_known(d)]
        if unknown:
            raise ValueError(f"column {column.name!r}: unsupported type {unknown[0].sql('spark').lower()!r}")
        collations = (c.kind.this.name for c in column.constraints if isinstance(c.kind, exp.CollateColumnConstraint))
        collation = next((f" {_COLLATE} {name}" for name in collations), "")
        is_not_null = any(isinstance(c.kind, exp.NotNullColumnConstraint) for c in column.constraints)
        yield Field(column.name, _format_type(column.kind) + collation, nullable=not is_not_null)


def _is_known(kind: exp.DataType) -> bool:
    interval = isinstance(kind, exp.IntervalSpan) or isinstance(kind.this, exp.Interval)
    return interval or kind.this in _KNOWN or kind.this in _SPARK_ONLY


def _format_type(kind: exp.DataType) -> str:
    """The canonical spelling of a type: DECIMAL is DECIMAL(10, 0), also inside other types; comments are dropped."""
    kind = kind.copy()
    for decimal in [d for d in kind.find_all(exp.DataType) if d.this == exp.DType.DECIMAL]:
        parameters = [p.name for p in decimal.expressions]
        shape = [int(n) for n in (parameters + ["10", "0"][len(parameters) :])]
        if not 0 <= shape[1] <= shape[0] <= 38:
            raise ValueError(f"not a valid Spark decimal: {decimal.sql('spark')}; use at most 38 digits")
        decimal.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(n)) for n in shape])
    for time in [d for d in kind.find_all(exp.DataType) if d.this == exp.DType.TIME]:  # sqlglot would print TIMESTAMP
        precision = ", ".join(p.name for p in time.expressions) or "6"
        time.replace(exp.DataType(this=exp.DType.USERDEFINED, kind=f"TIME({precision})"))
        if time is kind:
            return f"TIME({precision})"
    for comment in list(kind.find_all(exp.ColumnConstraint)):
        if isinstance(comment.kind, exp.CommentColumnConstraint):
            comment.pop()
    return kind.sql("spark")


@lru_cache(maxsize=4096)
def _parse_type(text: str) -> exp.DataType:
    return exp.DataType.build(text.partition(f" {_COLLATE} ")[0], dialect="spark")


@dataclass(frozen=True, slots=True)
class StateSchema:
    """State rows: their columns, and the key by which a later row replaces an earlier one."""

    schema: Schema
    key: tuple[str, ...]

    @classmethod
    def from_ddl(cls, ddl: str, key: str | tuple[str, ...]) -> StateSchema:
        return cls(Schema.from_ddl(ddl), (key,) if isinstance(key, str) else key)

    def find_problems(self) -> Iterator[str]:
        for name in self.key:
            if name not in self.schema:
                yield f"its key {name!r} is not a column of it (it has {', '.join(self.schema.names)})"


def widen_schema(schema: Schema, ddl: str) -> Schema:
    """The columns of `schema`, nullable since of an event that left a queue only the number is kept, and of `ddl`."""
    nullable = tuple(Field(f.name, f.type) for f in schema)
    return Schema((*nullable, *Schema.from_ddl(ddl)))
