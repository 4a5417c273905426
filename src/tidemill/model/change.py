"""How a channel's deltas change its content: the merge kinds.

Each kind defines three functions on full blocks:

    merge(B_i, D_ij) = B_j          apply a delta to a base
    chain(D_ij, D_jk) = D_ik        make one delta of two
    diff(B_i, B_j)   = D_ij         find the delta between two bases

and every kind obeys the same laws, which `tests/oracle/test_laws.py` checks:

    chain is associative
    merge(B_i, diff(B_i, B_j)) = B_j
    merge(merge(B, D1), D2) = merge(B, chain(D1, D2))

This module only describes the kinds. `algebra.reference` implements them on plain Python rows, `algebra.merge` as
operators.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tidemill.model.schema import Field, Schema

COUNT = "_count"
DELETED = "_deleted"
PATCH = "_patch"
RESERVED_COLUMNS = (COUNT, DELETED, PATCH)
INTERNAL_PREFIX = "_tidemill_"
"""The prefix of temporary columns that a merge adds and removes."""

_NUMERIC_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")

Rows = list[dict[str, Any]]
PerKey = Callable[[Rows, Rows], Rows]


class _MergeKind:
    __slots__ = ()

    name: ClassVar[str]
    delta_fields: ClassVar[tuple[Field, ...]] = ()  # columns of a delta, besides those of the content

    def build_delta_schema(self, schema: Schema) -> Schema:
        return schema.add_fields(*self.delta_fields)


@dataclass(frozen=True, slots=True)
class Append(_MergeKind):
    """Rows are only ever added. A delta holds the added rows; diff is bag difference."""

    name = "append"
    key: tuple[str, ...] = field(default=(), init=False)

    def find_problems(self, schema: Schema) -> Iterator[str]:
        return iter(())


@dataclass(frozen=True, slots=True)
class Signed(_MergeKind):
    """A delta holds rows with a signed count in `_count`: +n inserts a row n times, -n deletes it n times."""

    name = "signed"
    delta_fields = (Field(COUNT, "BIGINT", nullable=False),)
    key: tuple[str, ...] = field(default=(), init=False)

    def find_problems(self, schema: Schema) -> Iterator[str]:
        for f in schema:
            if not f.is_groupable:
                yield f"column {f.name!r} holds a map, which Spark cannot compare; signed rows must be comparable"


@dataclass(frozen=True, slots=True)
class Upsert(_MergeKind):
    """A delta holds at most one row per key, which replaces the row with that key, if any.

    With `_deleted` true the row only removes its key. NULL is a key like any other.
    """

    name = "upsert"
    delta_fields = (Field(DELETED, "BOOLEAN"),)
    key: tuple[str, ...]

    def find_problems(self, schema: Schema) -> Iterator[str]:
        yield from _find_key_problems(self.key, schema)


@dataclass(frozen=True, slots=True)
class Increment(_MergeKind):
    """A delta holds at most one row per key with amounts to add to `columns`; a new key starts from nothing.

    With `_deleted` true the old row is deleted first; amounts, if given, then start a new one. The increment
    columns are never NULL in the content: NULL amounts occur only in a pure deletion.
    """

    name = "increment"
    delta_fields = (Field(DELETED, "BOOLEAN"),)
    key: tuple[str, ...]
    columns: tuple[str, ...]

    def find_problems(self, schema: Schema) -> Iterator[str]:
        yield from _find_key_problems(self.key, schema)
        if not self.columns:
            yield "an increment channel needs at least one column to add to"
        for column in self.columns:
            if column not in schema:
                yield f"increment column {column!r} is not a column of it (it has {', '.join(schema.names)})"
            elif not schema.get_field(column).type.startswith(_NUMERIC_TYPES):
                yield f"increment column {column!r} is {schema.get_field(column).type}; only numbers can be added"
        for name in schema.names:
            if (name in self.key) == (name in self.columns):
                yield f"column {name!r} must be either in the key or among the increment columns"


@dataclass(frozen=True, slots=True)
class Patch(_MergeKind):
    """Upserts, and patches: a row with `_patch` true sets `columns` of every row that agrees with it on `by`.

    With `_deleted` true a patch removes all those rows. A delta's patches are applied to the content first, then its
    upserts replace rows by key. So one row of a delta changes a value that a thousand rows share.
    """

    name = "patch"
    delta_fields = (Field(DELETED, "BOOLEAN"), Field(PATCH, "BOOLEAN"))
    key: tuple[str, ...]
    by: tuple[str, ...]
    columns: tuple[str, ...]

    def find_problems(self, schema: Schema) -> Iterator[str]:
        yield from _find_key_problems(self.key, schema)
        yield from _find_key_problems(self.by, schema)
        for column in self.columns:
            if column not in schema or column in self.key or column in self.by:
                yield f"a patch cannot set {column!r}: it must be a column outside the key and outside by="


@dataclass(frozen=True, slots=True)
class Custom(_MergeKind):
    """The user's functions, each called once per key with plain lists of rows.

    `merge(base, delta)`, `chain(first, second)` and `diff(before, after)` return rows. They must obey the
    laws above; `tidemill.testing.check_laws` tests them.
    """

    name = "custom"
    key: tuple[str, ...]
    merge: PerKey = field(compare=False)
    chain: PerKey = field(compare=False)
    diff: PerKey = field(compare=False)
    delta: Schema | None = None  # columns of a delta, if they differ from the content's
    expand: PerKey | None = field(default=None, compare=False)  # optional shortcut: (base, delta) to signed rows
    contract: Callable[[Rows], Rows] | None = field(default=None, compare=False)  # optional: signed rows to a delta

    def build_delta_schema(self, schema: Schema) -> Schema:
        return self.delta or schema

    def find_problems(self, schema: Schema) -> Iterator[str]:
        yield from _find_key_problems(self.key, schema)
        if self.delta is not None:
            yield from (f"key column {k!r} is missing from the delta" for k in self.key if k not in self.delta)


Updates = Append | Signed | Upsert | Increment | Patch | Custom


def _find_key_problems(key: Sequence[str], schema: Schema) -> Iterator[str]:
    if not key:
        yield "a key needs at least one column"
    for column in key:
        if column not in schema:
            yield f"key column {column!r} is not a column of it (it has {', '.join(schema.names)})"
        elif not schema.get_field(column).is_groupable:
            yield f"key column {column!r} holds a map, which Spark cannot compare; choose another key"
    if len(set(key)) < len(key):
        yield f"the key names a column twice: {', '.join(key)}"
