"""Operators as one Spark SQL statement, with the semantics of `algebra.evaluate`.

Every operator becomes a query over its inputs, so that Spark parses and analyses a step at once: built call by call, a
refresh of a small change would spend most of its time on plan construction. Scans are DataFrames, as are operators that
only the DataFrame API supports (a user's function of a group); the statement reads them as views.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import RLock
from typing import Any, Protocol
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.expression import Expression, quote_name
from tidemill.algebra.operators import (
    AggregateCall,
    Aggregation,
    Explode,
    Filter,
    GroupedMap,
    Join,
    JoinKind,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    ScanMode,
    SingleRow,
    StepReference,
    TopN,
    Union,
    WindowFunction,
    list_children,
    select_columns,
    walk_operators,
)
from tidemill.algebra.simplify import merge_projections
from tidemill.spark.local.batches import LocalBatch
from tidemill.spark.merge import LookupKeys
from tidemill.spark.types import build_columns, format_type

_JOIN_SQL = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "LEFT SEMI JOIN",
    JoinKind.ANTI: "LEFT ANTI JOIN",
}


class ScanSource(Protocol):
    """The source of the rows of scans."""

    def __call__(self, scan: Scan, lookup: LookupKeys | None = None) -> DataFrame:
        """The rows of a scan; with `lookup`, those that match one of the keys."""

    def is_local(self, scan: Scan) -> bool:
        """Whether the rows are available at almost no cost, in the form that the scan needs."""

    def read_local(self, scan: Scan) -> LocalBatch | None:
        """The rows of a scan, if they are few and the driver can read them without Spark."""

    def find_by_keys(self, scan: Scan, keys: pa.Table, on: Sequence[tuple[str, str]]) -> LocalBatch | None:
        """The rows of a content that match one of the keys, if the driver can look them up."""


class OperatorCompiler:
    """Compiles operators to DataFrames, one at a time. Its temporary views exist until it is closed."""

    def __init__(
        self,
        spark: SparkSession,
        sources: ScanSource,
        steps: Mapping[str, DataFrame],
        *,
        single_task: bool = False,
        collect: Callable[[Operator], pa.Table] | None = None,
    ) -> None:
        """`single_task`: steps have so few rows that one task is enough; `collect`: collects them to the driver."""
        self._spark = spark
        self.sources = sources
        self.single_task = single_task
        self._collect = collect
        self._steps = steps
        self._views: dict[Operator, str] = {}
        self._prefix = f"tidemill_{uuid4().hex}"
        self._lock = RLock()

    def build_frame(self, op: Operator) -> DataFrame:
        merged = merge_projections(op)
        with self._lock:
            statement = _SqlStatement(self, merged)
            table = statement.format_table(merged)
            return self._spark.sql(f"{statement.format_with_clause()}SELECT {_format_names(op.columns)} FROM {table}")

    def find_view(self, op: Operator) -> str | None:
        """The view of an operator that is not part of the statement; None if it is part of it."""
        if op not in self._views:
            frame = self._build_separate_frame(op)
            if frame is None:
                return None
            name = f"{self._prefix}_{len(self._views)}"
            frame.createOrReplaceTempView(name)
            self._views[op] = name
        return self._views[op]

    def _build_separate_frame(self, op: Operator) -> DataFrame | None:
        match op:
            case Scan():
                return self.sources(op)
            case StepReference():
                return self._steps[op.step]
            case GroupedMap():
                return _apply_function(self.build_frame(op.child), op)
            case Join(left=Scan() as scan) if is_lookup(op) and (self._collect or not self.sources.is_local(scan)):
                keys = select_columns(op.right, list(dict.fromkeys(k for _, k in op.keys)))
                collect = self._collect and partial(self._collect, keys)
                return self.sources(scan, LookupKeys(op.keys, partial(self.build_frame, keys), collect))
        return None

    def close(self) -> None:
        for view in self._views.values():
            self._spark.catalog.dropTempView(view)


class _SqlStatement:
    """One statement: operators as nested queries, with names for those that are used more than once.

    Spark takes twice as long to analyse and optimise the same query with a name for every part (docs/benchmarks.md).
    """

    def __init__(self, compiler: OperatorCompiler, root: Operator) -> None:
        self._compiler = compiler
        self._uses = Counter(child for op in set(walk_operators(root)) for child in list_children(op))
        self._names: dict[Operator, str] = {}
        self._parts: list[str] = []

    def format_with_clause(self) -> str:
        return f"WITH {', '.join(self._parts)} " if self._parts else ""

    def format_table(self, op: Operator) -> str:
        """The text after FROM for an operator."""
        if op not in self._names:
            view = self._compiler.find_view(op)
            text = view if view is not None else f"({self._format_operator(op)})"
            self._names[op] = self._add_cte(text) if view is None and self._uses[op] > 1 else text
        return self._names[op]

    def _add_cte(self, text: str) -> str:
        name = f"t{len(self._parts)}"
        self._parts.append(f"{name} AS {text}")
        return name

    def _format_operator(self, op: Operator) -> str:
        match op:
            case SingleRow():
                return "SELECT 0 AS _one"
            case Projection():
                return f"SELECT {_format_items(op.items)} FROM {self.format_table(op.child)}"
            case Filter():
                return f"SELECT * FROM {self.format_table(op.child)} WHERE {op.condition}"
            case Explode():
                return f"SELECT *, {_format_generator(op)} FROM {self.format_table(op.child)}"
            case Union():
                names = ", ".join(map(quote_name, op.columns))
                return " UNION ALL ".join(f"SELECT {names} FROM {self.format_table(c)}" for c in op.children)
            case Join():
                return self._format_join(op)
            case Aggregation():
                groups, rows = _format_group(op), self._coalesce_small(op.child)
                return f"SELECT {groups} FROM {rows} GROUP BY {_format_names(op.keys)}"
            case WindowFunction():
                query = f"SELECT *, {_format_items(op.items)} FROM {self._coalesce_small(op.child)}"
                return query if op.condition is None else f"SELECT * FROM ({query}) WHERE {op.condition}"
            case TopN():
                order = ", ".join(o.text for o in op.order)
                return f"SELECT * FROM {self.format_table(op.child)} ORDER BY {order} LIMIT {op.limit} OFFSET {op.skip}"
        raise AssertionError(f"{type(op).__name__} is not part of a statement")

    def _coalesce_small(self, op: Operator) -> str:
        """The operator's table; in one task if all its scans are local, so that grouping needs no shuffle."""
        scans = (o for o in walk_operators(op) if isinstance(o, Scan))
        is_small = self._compiler.single_task and all(self._compiler.sources.is_local(s) for s in scans)
        return f"(SELECT /*+ COALESCE(1) */ * FROM {self.format_table(op)})" if is_small else self.format_table(op)

    def _format_join(self, op: Join) -> str:
        left, right, keys = self.format_table(op.left), self.format_table(op.right), op.keys
        if set(op.left.columns) & set(op.right.columns):  # only keys are needed of a semi join's other side
            aliases = {r: f"_tidemill_right{i}" for i, (_, r) in enumerate(keys)}
            right = f"(SELECT {', '.join(f'{quote_name(r)} AS {n}' for r, n in aliases.items())} FROM {right})"
            keys = tuple((a, aliases[r]) for a, r in keys)
        equality = "<=>" if op.null_safe else "="
        on = [f"{quote_name(a)} {equality} {quote_name(b)}" for a, b in keys]
        on += [f"({op.condition})"] if op.condition is not None else []
        return f"SELECT * FROM {left} {_JOIN_SQL[op.kind]} {right} ON {' AND '.join(on) or 'TRUE'}"


def is_lookup(op: Join) -> bool:
    """Whether this is a lookup of a few keys in a channel's content."""
    is_content = isinstance(op.left, Scan) and op.left.mode in (ScanMode.OLD, ScanMode.NEW)
    return is_content and op.kind is JoinKind.SEMI and op.null_safe and op.condition is None


def _format_names(names: Iterable[str]) -> str:
    return ", ".join(map(quote_name, names))


def _format_items(items: Iterable[NamedExpression]) -> str:
    return ", ".join(f"{i.value} AS {quote_name(i.name)}" for i in items)


def _format_generator(op: Explode) -> str:
    call = (
        Expression(op.generator.text.replace("EXPLODE(", "EXPLODE_OUTER(", 1), frozenset())
        if op.outer
        else op.generator
    )
    names = ", ".join(map(quote_name, op.outputs))
    return f"{call} AS {names}" if len(op.outputs) == 1 else f"{call} AS ({names})"


def _format_group(op: Aggregation) -> str:
    return ", ".join([*map(quote_name, op.keys), *map(_format_fold, op.calls)])


def _format_fold(aggregate: AggregateCall) -> str:
    arguments = ", ".join(a.text for a in aggregate.arguments) or "1"
    call = aggregate.text or f"{aggregate.function}({arguments})"
    return f"{f'CAST({call} AS {aggregate.cast})' if aggregate.cast else call} AS {quote_name(aggregate.name)}"


def _apply_function(child: DataFrame, op: GroupedMap) -> DataFrame:
    """Apply the user's function to each group's rows; the keys come before the columns that it returns."""
    types = {f.name: format_type(f.dataType) for f in child.schema.fields}
    schema = ", ".join([*(f"{quote_name(k)} {types[k]}" for k in op.keys), op.schema])
    return child.groupBy(*build_columns(op.keys)).applyInPandas(_prepend_keys(op.function, op.keys), schema)


def _prepend_keys(function: Callable[..., Any], keys: tuple[str, ...]) -> Callable[[Any], Any]:
    def call_function(rows: Any) -> Any:
        result = function(rows)
        for position, key in enumerate(keys):
            result.insert(position, key, rows[key].iloc[0] if len(rows) else None)
        return result

    return call_function
