"""Operators as one Spark SQL statement, with the semantics of `tests.algebra.evaluate`.

Every operator becomes a query over its inputs, so that Spark parses and analyses a step at once: built call by call, a
refresh of a small change would spend most of its time on plan construction. Scans are DataFrames, as are operators that
only the DataFrame API supports (a user's function of a group); the statement reads them as views.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from threading import RLock
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.algebra import operators as ops
from tidemill.algebra.expression import quote_name
from tidemill.algebra.rewrite.passes import rewrite_statement
from tidemill.algebra.views import SmallChangeTest
from tidemill.spark.custom_merge import apply_custom_merge
from tidemill.spark.key_joins import exclude_matching, select_matching
from tidemill.spark.types import build_column, format_type

_MARK = "\0"
"""Surrounds the name of a frame in a statement until other braces are doubled."""

ReadScan = Callable[[ops.Scan | ops.BlockScan], DataFrame]
"""Reads the rows of a scan."""


class OperatorCompiler:
    """Compiles operators to DataFrames, one at a time."""

    def __init__(
        self,
        spark: SparkSession,
        read_scan: ReadScan | None,
        find_step: Callable[[str], DataFrame] | None = None,
        *,
        single_task_rows: int = 0,
        is_small: SmallChangeTest | None = None,
    ) -> None:
        """`read_scan`, `find_step`: None if unused; scans of up to `single_task_rows` are grouped by one task."""
        self._spark = spark
        self._read_scan = read_scan
        self._single_task_rows = single_task_rows
        self._is_small = is_small
        self._find_step = find_step
        self._frames: dict[ops.Operator, DataFrame | None] = {}
        self._lock = RLock()

    def build_frame(self, op: ops.Operator) -> DataFrame:
        merged = rewrite_statement(op)
        with self._lock:
            statement = _SqlStatement(self, merged)
            table = statement.format_table(merged)
            ctes = f"WITH {', '.join(statement.parts)} " if statement.parts else ""
            text = f"{ctes}SELECT {_format_names(op.columns)} FROM {table}"
            return self._spark.sql(statement.mark_frames(text), **statement.frames)

    def find_frame(self, op: ops.Operator) -> DataFrame | None:
        """The frame of an operator that is not part of the statement; None if it is part of it."""
        if op not in self._frames:
            self._frames[op] = self._build_separate_frame(op)
        return self._frames[op]

    def is_single_task(self, op: ops.Operator) -> bool:
        """Whether its rows are so few that one task is as quick as several."""
        scans = [o for o in ops.walk_operators(op) if isinstance(o, ops.Scan | ops.BlockScan)]
        return all(isinstance(s, ops.BlockScan) and s.rows <= self._single_task_rows for s in scans)

    def _build_separate_frame(self, op: ops.Operator) -> DataFrame | None:
        match op:
            case ops.Scan() | ops.BlockScan():
                assert self._read_scan is not None
                return self._read_scan(op)
            case ops.StepReference():
                assert self._find_step is not None
                return self._find_step(op.step)
            case ops.GroupedMap():
                return _apply_function(self.build_frame(op.child), op)
            case ops.CustomMerge():
                parts = {"base": op.base, "delta": op.deltas}
                return apply_custom_merge(op, {n: self.build_frame(p) for n, p in parts.items() if p is not None})
            case ops.Join(left=ops.BlockScan() as scan, kind=ops.JoinKind.SEMI, null_safe=True, condition=None) if (
                scan.rows > self._single_task_rows
            ):  # a lookup of keys in blocks
                return select_matching(self.build_frame(scan), self._build_keys(op), op.keys)
            case ops.Join(kind=ops.JoinKind.ANTI, null_safe=True, condition=None) if self._is_small and self._is_small(
                estimate_rows(op.left), estimate_rows(op.right)
            ):
                return exclude_matching(self.build_frame(op.left), self._build_keys(op), op.keys)
        return None

    def _build_keys(self, op: ops.Join) -> DataFrame:
        return self.build_frame(ops.select_columns(op.right, list(dict.fromkeys(op.right_keys))))


def estimate_rows(op: ops.Operator) -> int:
    """The rows of its scans: more than it has, unless a join or a generator multiplies them."""
    return sum(o.rows for o in ops.walk_operators(op) if isinstance(o, ops.BlockScan))


class _SqlStatement:
    """One statement: operators as nested queries, with names for those that are used more than once.

    Spark takes twice as long to analyse and optimise the same query with a name for every part (docs/benchmarks.md).
    """

    def __init__(self, compiler: OperatorCompiler, root: ops.Operator) -> None:
        self._compiler = compiler
        self._uses = Counter(child for op in set(ops.walk_operators(root)) for child in ops.list_children(op))
        self._names: dict[ops.Operator, str] = {}
        self.parts: list[str] = []
        self.frames: dict[str, Any] = {}
        """The frames that the statement reads, by their names in it."""

    def mark_frames(self, text: str) -> str:
        """The text with the names of frames in braces, and other braces doubled."""
        if not self.frames:
            return text
        return re.sub(f"{_MARK}(.*?){_MARK}", r"{\1}", text.replace("{", "{{").replace("}", "}}"))

    def format_table(self, op: ops.Operator) -> str:
        if op in self._names:
            return self._names[op]
        frame = self._compiler.find_frame(op)
        if frame is not None:
            name = f"frame{len(self.frames)}"
            self.frames[name] = frame
            text = f"{_MARK}{name}{_MARK}"
        else:
            text = f"({self._format_operator(op)})"
            if self._uses[op] > 1:
                name = f"t{len(self.parts)}"
                self.parts.append(f"{name} AS {text}")
                text = name
        self._names[op] = text
        return text

    def _format_operator(self, op: ops.Operator) -> str:
        match op:
            case ops.SingleRow():
                return "SELECT 0 AS _one"
            case ops.Projection():
                return f"SELECT {_format_items(op.items)} FROM {self.format_table(op.child)}"
            case ops.Filter():
                return f"SELECT * FROM {self.format_table(op.child)} WHERE {op.condition}"
            case ops.Explode():
                return f"SELECT *, {_format_generator(op)} FROM {self.format_table(op.child)}"
            case ops.Union():
                names = _format_names(op.columns)
                return " UNION ALL ".join(f"SELECT {names} FROM {self.format_table(c)}" for c in op.children)
            case ops.Join():
                return self._format_join(op)
            case ops.Aggregation():
                groups, rows = [*map(quote_name, op.keys), *map(_format_call, op.calls)], self._coalesce_small(op.child)
                return f"SELECT {', '.join(groups)} FROM {rows} GROUP BY {_format_names(op.keys)}"
            case ops.WindowFunction():
                query = f"SELECT *, {_format_items(op.items)} FROM {self._coalesce_small(op.child)}"
                return query if op.condition is None else f"SELECT * FROM ({query}) WHERE {op.condition}"
            case ops.TopN():
                order = ", ".join(o.text for o in op.order)
                return f"SELECT * FROM {self.format_table(op.child)} ORDER BY {order} LIMIT {op.limit} OFFSET {op.skip}"
        raise AssertionError(f"{type(op).__name__} is not part of a statement")

    def _coalesce_small(self, op: ops.Operator) -> str:
        """The operator's table; in one task if all its scans are small, so that grouping needs no shuffle."""
        table = self.format_table(op)
        return f"(SELECT /*+ COALESCE(1) */ * FROM {table})" if self._compiler.is_single_task(op) else table

    def _format_join(self, op: ops.Join) -> str:
        left, right, keys = self.format_table(op.left), self.format_table(op.right), op.keys
        if set(op.left.columns) & set(op.right.columns):  # only keys are needed of a semi join's other side
            aliases = {r: f"_tidemill_right{i}" for i, (_, r) in enumerate(keys)}
            right = f"(SELECT {', '.join(f'{quote_name(r)} AS {n}' for r, n in aliases.items())} FROM {right})"
            keys = tuple((a, aliases[r]) for a, r in keys)
        equality = "<=>" if op.null_safe else "="
        on = [f"{quote_name(a)} {equality} {quote_name(b)}" for a, b in keys]
        on += [f"({op.condition})"] if op.condition is not None else []
        return f"SELECT * FROM {left} {op.kind.sql} {right} ON {' AND '.join(on) or 'TRUE'}"


def _format_names(names: Iterable[str]) -> str:
    return ", ".join(map(quote_name, names))


def _format_items(items: Iterable[ops.NamedExpression]) -> str:
    return ", ".join(f"{i.value} AS {quote_name(i.name)}" for i in items)


def _format_generator(op: ops.Explode) -> str:
    call = op.generator.text
    if op.outer:
        call = call.replace("EXPLODE(", "EXPLODE_OUTER(", 1)
    names = _format_names(op.outputs)
    return f"{call} AS {names}" if len(op.outputs) == 1 else f"{call} AS ({names})"


def _format_call(aggregate: ops.AggregateCall) -> str:
    arguments = ", ".join(a.text for a in aggregate.arguments) or "1"
    call = aggregate.text or f"{aggregate.function}({arguments})"
    return f"{f'CAST({call} AS {aggregate.cast})' if aggregate.cast else call} AS {quote_name(aggregate.name)}"


def _apply_function(child: DataFrame, op: ops.GroupedMap) -> DataFrame:
    """Apply the user's function to each group's rows; the keys come before the columns that it returns.

    Floating-point keys pass as text, because pandas does not distinguish NaN from NULL. Adding 0 makes -0.0 to 0.0.
    """
    types = {f.name: format_type(f.dataType) for f in child.schema.fields}
    groups = {k: build_column(k) for k in op.keys}
    floats = {k: types[k] for k in op.keys if types[k] in ("float", "double")}
    groups |= {k: (groups[k] + F.lit(0).cast(kind)).cast("string") for k, kind in floats.items()}
    schema = ", ".join([*(f"{quote_name(k)} {'string' if k in floats else types[k]}" for k in op.keys), op.schema])
    result = child.groupBy(*groups.values()).applyInPandas(_prepend_keys(op.function, op.keys), schema)
    return result.withColumns({k: build_column(k).cast(kind) for k, kind in floats.items()})


def _prepend_keys(function: Callable[..., Any], keys: tuple[str, ...]) -> Callable[[tuple[Any, ...], Any], Any]:
    def call_function(values: tuple[Any, ...], rows: Any) -> Any:
        result = function(rows)
        for position, (key, value) in enumerate(zip(keys, values, strict=True)):
            result.insert(position, key, value)
        return result

    return call_function
