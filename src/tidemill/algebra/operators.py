"""Operators: the relational algebra that declared queries are translated to, as data.

A query is a tree of these over channels. `spark.operators` executes it; `tests.algebra.evaluate` has its meaning on
plain rows. `derive` turns a tree into another tree of the same operators that computes only the changes. Rows are bags.

Columns have distinct names within an operator; the columns of a join's two sides are disjoint. Keys are always columns,
so any expression that is joined or grouped by is projected first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from tidemill.algebra.expression import Expression, build_column, build_literal, to_expression
from tidemill.model.block import Block
from tidemill.model.change import Custom
from tidemill.model.schema import Schema

ORDER = "_tidemill_order"
"""The column with the number of a row's block."""


class ScanMode(StrEnum):
    """Which rows of a channel a scan gives."""

    NEW = "new"  # its content now
    OLD = "old"  # its content when the task last consumed it
    CHANGE = "change"  # the changes since, as signed rows: `_count` says how often a row was added
    TOUCHED = "touched"  # the changes since, of a keyed channel: the new row of each key, `_deleted` if it has none


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def sql(self) -> str:
        return f"{'LEFT ' if self in (JoinKind.SEMI, JoinKind.ANTI) else ''}{self.upper()} JOIN"


@dataclass(frozen=True, slots=True)
class NamedExpression:
    """An expression and the name of its column."""

    name: str
    value: Expression

    @property
    def is_column(self) -> bool:
        return self.value.column_name is not None


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a channel."""

    channel: str
    columns: tuple[str, ...]
    mode: ScanMode = ScanMode.NEW
    keys: tuple[str, ...] = field(default=(), compare=False)  # the key columns of a keyed channel
    append_only: bool = field(default=False, compare=False)  # rows are only added, never removed
    is_patched: bool = field(default=False, compare=False)  # a row of a change may set columns of many rows


@dataclass(frozen=True, slots=True)
class BlockScan:
    """The rows of blocks in files of one schema, in the columns of `schema`; `ORDER` is the number of a row's block."""

    files: tuple[str, ...]
    columns: tuple[str, ...]
    schema: Schema
    stored_schema: Schema
    blocks: tuple[Block, ...] = field(compare=False)
    first: int = 1
    is_change: bool = False  # the rows of a change, not of a content

    @property
    def rows(self) -> int:
        return sum(b.rows for b in self.blocks)

    @property
    def bytes(self) -> int:
        return sum(b.bytes for b in self.blocks)


@dataclass(frozen=True, slots=True)
class CustomMerge:
    """A user's function of each key's rows: of a content (`base`) and of deltas, each with the column `ORDER`."""

    base: Operator | None
    deltas: Operator | None
    updates: Custom
    function: Literal["merge", "chain", "diff"]
    schema: Schema  # of the result

    @property
    def columns(self) -> tuple[str, ...]:
        return self.schema.names


@dataclass(frozen=True, slots=True)
class SingleRow:
    """A single row with the column `_one`, which is 0."""

    columns: tuple[str, ...] = field(default=("_one",), init=False)


@dataclass(frozen=True, slots=True)
class StepReference:
    """The rows of an earlier step of the same program."""

    step: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Projection:
    """Expressions of each row: map and project."""

    child: Operator
    items: tuple[NamedExpression, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(i.name for i in self.items)


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which the condition is true."""

    child: Operator
    condition: Expression

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns


@dataclass(frozen=True, slots=True)
class Explode:
    """Each row once for each element that a generator yields; if `outer`, once with NULLs where it yields none."""

    child: Operator
    generator: Expression
    outputs: tuple[str, ...]
    outer: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.child.columns, *self.outputs)


@dataclass(frozen=True, slots=True)
class Union:
    """All rows of all children, which have the same columns."""

    children: tuple[Operator, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.children[0].columns


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows that are equal on the keys and satisfy the condition. `null_safe`: NULL equals NULL."""

    left: Operator
    right: Operator
    kind: JoinKind
    keys: tuple[tuple[str, str], ...] = ()
    condition: Expression | None = None
    null_safe: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self.left.columns
        return (*self.left.columns, *self.right.columns)

    @property
    def left_keys(self) -> tuple[str, ...]:
        return tuple(k for k, _ in self.keys)

    @property
    def right_keys(self) -> tuple[str, ...]:
        return tuple(k for _, k in self.keys)


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregated column: a function of the group's rows; `count` of no arguments counts rows."""

    name: str
    function: str  # e.g. "sum", "max", or any other aggregate of Spark
    arguments: tuple[Expression, ...] = ()
    type: str = ""  # of its only argument, where known
    text: str = ""  # the call as written, for functions with a special syntax
    cast: str = ""  # the type to cast the result to, if different


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One row for each distinct value of at least one key, where NULL equals NULL; without `calls`, distinct rows."""

    child: Operator
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.keys, *(f.name for f in self.calls))


@dataclass(frozen=True, slots=True)
class WindowFunction:
    """Each row with columns that depend on the rows of its partition. Without partition columns, all rows are one."""

    child: Operator
    partition: tuple[str, ...]
    items: tuple[NamedExpression, ...]  # Spark window expressions, with their OVER clause
    condition: Expression | None = None  # only the rows for which this holds; the state contains no others

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.child.columns, *(i.name for i in self.items))


@dataclass(frozen=True, slots=True)
class TopN:
    """The first rows in an order, after `skip` rows."""

    child: Operator
    order: tuple[Expression, ...]  # each with its direction
    limit: int
    skip: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns


@dataclass(frozen=True, slots=True)
class GroupedMap:
    """A user's function of each group's rows, as pandas frames; the keys come before the columns that it returns."""

    child: Operator
    keys: tuple[str, ...]
    function: Callable[..., Any] = field(hash=False)  # a callable object need not be hashable
    schema: str  # DDL of the function's result
    outputs: tuple[str, ...]
    identity: str  # of the function's code

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.keys, *self.outputs)


Operator = (
    Scan
    | BlockScan
    | CustomMerge
    | SingleRow
    | StepReference
    | Projection
    | Filter
    | Explode
    | Union
    | Join
    | Aggregation
    | WindowFunction
    | TopN
    | GroupedMap
)


def list_children(op: Operator) -> tuple[Operator, ...]:
    match op:
        case Scan() | BlockScan() | SingleRow() | StepReference():
            return ()
        case CustomMerge():
            return tuple(part for part in (op.base, op.deltas) if part is not None)
        case Union():
            return op.children
        case Join():
            return (op.left, op.right)
        case _:
            return (op.child,)


def map_children(op: Operator, transform: Callable[[Operator], Operator]) -> Operator:
    """The same operator over its children transformed by `transform`."""
    match op:
        case Scan() | BlockScan() | SingleRow() | StepReference():
            return op
        case CustomMerge():
            return replace(op, base=op.base and transform(op.base), deltas=op.deltas and transform(op.deltas))
        case Union():
            return Union(tuple(transform(c) for c in op.children))
        case Join():
            return replace(op, left=transform(op.left), right=transform(op.right))
        case _:
            return replace(op, child=transform(op.child))


def walk_operators(op: Operator) -> Iterator[Operator]:
    """The operator and all its descendants, inputs first."""
    for child in list_children(op):
        yield from walk_operators(child)
    yield op


def list_scans(op: Operator) -> list[Scan]:
    """The distinct scans of a tree, in order."""
    return list(dict.fromkeys(o for o in walk_operators(op) if isinstance(o, Scan)))


Values = Mapping[str, Expression | str]
"""Expressions, or their texts over plain column names, by the names of their columns."""


def name_values(values: Values) -> tuple[NamedExpression, ...]:
    return tuple(NamedExpression(n, to_expression(v) if isinstance(v, str) else v) for n, v in values.items())


def to_items(names: Iterable[str]) -> tuple[NamedExpression, ...]:
    return tuple(NamedExpression(n, build_column(n)) for n in names)


def select_columns(child: Operator, names: Iterable[str], values: Values | None = None) -> Projection:
    """Only these columns, and computed values."""
    return Projection(child, (*to_items(names), *name_values(values or {})))


def rename_columns(child: Operator, names: Mapping[str, str]) -> Projection:
    """Only these columns, renamed: old name to new."""
    return Projection(child, tuple(NamedExpression(new, build_column(old)) for old, new in names.items()))


def add_columns(child: Operator, values: Values) -> Projection:
    """All columns and more; a value with the name of an existing column replaces it."""
    existing: Values = {c: build_column(c) for c in child.columns}
    return Projection(child, name_values({**existing, **values}))


def filter_rows(child: Operator, condition: str) -> Filter:
    return Filter(child, to_expression(condition))


def select_distinct(child: Operator, names: tuple[str, ...] | None = None) -> Aggregation:
    return Aggregation(child, child.columns if names is None else names)


def repeat_rows(child: Operator, times: str, name: str) -> Explode:
    """Each row repeated; the added column `name` carries no information."""
    return Explode(child, to_expression(f"EXPLODE(ARRAY_REPEAT(0, CAST({times} AS INT)))"), (name,))


def pair_columns(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((n, n) for n in names)


def prefix_columns(op: Operator, prefix: str, exclude: Collection[str]) -> Projection:
    return rename_columns(op, {c: c if c in exclude else prefix + c for c in op.columns})


def union_all(parts: Iterable[Operator | None]) -> Operator | None:
    """All rows of the parts that exist; None if there are none."""
    existing = tuple(part for part in parts if part is not None)
    return Union(existing) if len(existing) > 1 else next(iter(existing), None)


def union_by_name(left: Operator, right: Operator) -> Operator:
    """All rows of both; a column that one side lacks is NULL there."""
    names = dict.fromkeys((*left.columns, *right.columns))
    sides = ({n: build_column(n) if n in s.columns else build_literal("NULL") for n in names} for s in (left, right))
    return Union(tuple(Projection(s, name_values(values)) for s, values in zip((left, right), sides, strict=True)))


def tag_sides(left: Operator, right: Operator, names: tuple[str, str]) -> Operator:
    """All rows of both; in the columns of these names, those of the left side have 1 and 0, the others 0 and 1."""
    first, second = names
    return Union((add_columns(left, {first: "1", second: "0"}), add_columns(right, {first: "0", second: "1"})))
