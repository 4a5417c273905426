"""Operators as DataFrames: each one call of the DataFrame API, with the meaning that `algebra.evaluate` gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.algebra.operators import (
    Apply,
    At,
    Explode,
    Filter,
    Fold,
    Group,
    Join,
    JoinKind,
    Named,
    One,
    Operator,
    Project,
    Ref,
    Scan,
    Top,
    Union,
    Window,
)
from tidemill.spark.types import column, columns, quoted

_HOW = {
    JoinKind.INNER: "inner",
    JoinKind.LEFT: "left",
    JoinKind.RIGHT: "right",
    JoinKind.FULL: "full",
    JoinKind.SEMI: "left_semi",
    JoinKind.ANTI: "left_anti",
}

Keys = tuple[DataFrame, tuple[tuple[str, str], ...]]
"""A few keys, and which columns must agree with which of theirs."""


class Sources(Protocol):
    """Where scans get their rows."""

    def __call__(self, scan: Scan, only: Keys | None = None) -> DataFrame:
        """The rows of a scan; with `only`, those that agree with some of the keys."""


class Compiler:
    """Makes DataFrames of operators; equal operators are made once."""

    def __init__(self, spark: SparkSession, sources: Sources, steps: Mapping[str, DataFrame]) -> None:
        self._spark = spark
        self._sources = sources
        self._steps = steps
        self._made: dict[Operator, DataFrame] = {}

    def frame(self, op: Operator) -> DataFrame:
        if op not in self._made:
            self._made[op] = self._frame(op)
        return self._made[op]

    def _frame(self, op: Operator) -> DataFrame:
        match op:
            case Scan():
                return self._sources(op).select(*columns(op.columns))
            case Ref():
                return self._steps[op.step].select(*columns(op.columns))
            case One():
                return self._spark.sql("SELECT 0 AS _one")
            case Project():
                return self.frame(op.child).select(*map(_named, op.items))
            case Filter():
                return self.frame(op.child).filter(op.condition.text)
            case Explode():
                return self._explode(op)
            case Union():
                names = columns(op.columns)
                return reduce(DataFrame.union, (self.frame(c).select(*names) for c in op.children))
            case Join():
                return self._join(op)
            case Group():
                return _grouped(self.frame(op.child), op)
            case Window():
                return self.frame(op.child).select("*", *map(_named, op.items))
            case Top():
                ordered = self.frame(op.child).orderBy(*(_ordered(o.text) for o in op.order))
                return (ordered.offset(op.skip) if op.skip else ordered).limit(op.limit)
            case Apply():
                return _applied(self.frame(op.child), op)

    def _explode(self, op: Explode) -> DataFrame:
        text = op.generator.text.replace("EXPLODE(", "EXPLODE_OUTER(", 1) if op.outer else op.generator.text
        return self.frame(op.child).select("*", F.expr(text).alias(*op.outputs))

    def _join(self, op: Join) -> DataFrame:
        if _lookup(op):
            assert isinstance(op.left, Scan)
            return self._sources(op.left, (self.frame(op.right), op.keys)).select(*columns(op.left.columns))
        left, right, keys = self.frame(op.left), self.frame(op.right), op.keys
        if set(left.columns) & set(right.columns):  # only keys are asked of a semi join's other side
            right = right.select(*(column(r).alias(f"_right{i}") for i, (_, r) in enumerate(keys)))
            keys = tuple((a, f"_right{i}") for i, (a, _) in enumerate(keys))
        if not keys and op.condition is None and op.kind is JoinKind.INNER:
            return left.crossJoin(right)
        agreed = [_agree(a, b, safe=op.safe) for a, b in keys]
        if op.condition is not None:
            agreed.append(F.expr(op.condition.text))
        return left.join(right, reduce(Column.__and__, agreed) if agreed else F.lit(True), _HOW[op.kind])


def _lookup(op: Join) -> bool:
    """Is this a look-up of a few keys in a channel's content?"""
    content = isinstance(op.left, Scan) and op.left.at in (At.OLD, At.NEW)
    return content and op.kind is JoinKind.SEMI and op.safe and op.condition is None


def _agree(left: str, right: str, *, safe: bool) -> Column:
    return column(left).eqNullSafe(column(right)) if safe else column(left) == column(right)


def _named(item: Named) -> Column:
    plain = item.value.column
    return (F.expr(item.value.text) if plain is None else column(plain)).alias(item.name)


def _ordered(text: str) -> Column:
    """A sort key with its direction."""
    down = text.upper().endswith((" DESC", " DESC NULLS FIRST"))
    last = text.upper().endswith((" DESC", "NULLS LAST"))
    bare = text.removesuffix(" NULLS LAST").removesuffix(" NULLS FIRST").removesuffix(" DESC").removesuffix(" ASC")
    value = F.expr(bare)
    if down:
        return value.desc_nulls_last() if last else value.desc_nulls_first()
    return value.asc_nulls_last() if last else value.asc_nulls_first()


def _grouped(child: DataFrame, op: Group) -> DataFrame:
    if not op.folds:
        return child.select(*columns(op.keys)).distinct()
    return child.groupBy(*columns(op.keys)).agg(*map(_fold, op.folds)).select(*columns(op.columns))


def _fold(fold: Fold) -> Column:
    arguments = ", ".join(a.text for a in fold.arguments) or "1"
    made = F.expr(fold.text or f"{fold.function}({arguments})")
    return (made.cast(fold.cast) if fold.cast else made).alias(fold.name)


def _applied(child: DataFrame, op: Apply) -> DataFrame:
    """The user's function sees each group's rows; the keys are put in front of what it returns."""
    types = {f.name: f.dataType.simpleString() for f in child.schema.fields}
    schema = ", ".join([*(f"{quoted(k)} {types[k]}" for k in op.keys), op.schema])
    return child.groupBy(*columns(op.keys)).applyInPandas(_with_keys(op.function, op.keys), schema)


def _with_keys(function: Callable[..., Any], keys: tuple[str, ...]) -> Callable[[Any], Any]:
    def call(rows: Any) -> Any:
        made = function(rows)
        for position, key in enumerate(keys):
            made.insert(position, key, rows[key].iloc[0] if len(rows) else None)
        return made

    return call
