"""Relations: queries written as method calls instead of SQL text.

    scores = clicks.select("site", "user").distinct().group_by("site").agg(score="ln(1 + count(*))")

Expressions are Spark SQL. A relation computes nothing: it records the operations and their source locations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidemill.algebra import stages
from tidemill.algebra.dialect import parse_expression, parse_query, to_sql
from tidemill.algebra.expression import quote_name
from tidemill.algebra.operators import JoinKind
from tidemill.algebra.sql.grouping import find_aggregate_calls
from tidemill.errors import WorkflowError
from tidemill.model.location import find_caller
from tidemill.model.schema import Schema

Columns = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows derived from channels. A join's condition refers to them by `name`: `clicks.site = pages.site`."""

    name: str
    stage: stages.Stage

    def alias(self, name: str) -> Relation:
        """The same rows under another name."""
        return replace(self, name=name)

    def select(self, *columns: str, **named: str) -> Relation:
        """Only these columns and expressions: `select("user", score="ln(1 + n)")`; "*" selects all columns."""
        trees = [_parse_row_expression(c) for c in columns]
        expressions = {n: _parse_row_expression(t) for n, t in named.items()}
        if not trees and not expressions:
            raise _build_error("select() needs at least one column")
        rules = [partial(stages.check_known, (*trees, *expressions.values()))]
        if any(t.is_star and not any(s.args.get("except_") for s in t.find_all(exp.Star)) for t in trees):
            rules.append(partial(stages.check_free, tuple(named)))
        return self._add_query(f"SELECT {_format_select_list(trees, expressions)} FROM {self._from_clause}", *rules)

    def where(self, condition: str) -> Relation:
        """Only the rows for which the condition is true."""
        predicate = _parse_row_expression(condition)
        if predicate.find(exp.Window):
            raise _build_error(f"{condition!r} looks at other rows; add it as a column with window() first")
        query = f"SELECT * FROM {self._from_clause} WHERE {to_sql(predicate)}"
        return self._add_query(query, partial(stages.check_known, [predicate]))

    def split(self, condition: str) -> tuple[Relation, Relation]:
        """The rows for which the condition is true, and all others."""
        return self.where(condition), self.where(f"NOT COALESCE(({condition}), FALSE)")

    def distinct(self) -> Relation:
        """Each row once."""
        return self._add_query(f"SELECT DISTINCT * FROM {self._from_clause}", partial(stages.check_comparable, None))

    def group_by(self, *columns: str, **named: str) -> Groups:
        """Groups of rows that agree on columns and expressions; without any, all rows are one group."""
        keys = {c: _parse_column(c) for c in columns} | {n: _parse_row_expression(t) for n, t in named.items()}
        return Groups(self, keys)

    def join(self, other: Relation, on: Columns, how: str = "inner") -> Relation:
        """Pairs of rows. `on` names columns that both sides have, which appear once, or is a condition.

        `how` is inner, left, right, full, semi (rows that have a partner) or anti (rows that have none).
        """
        if how not in list(JoinKind):
            raise _build_error(f"how is one of {', '.join(JoinKind)}, not {how!r}")
        names = _find_using_columns(on)
        if names is not None:
            return self._join_using(other, JoinKind(how), names)
        condition = exp.and_(*(_parse_row_expression(t) for t in _to_names(on)), copy=False)
        return self._join_where(other, JoinKind(how), condition)

    def union(self, other: Relation) -> Relation:
        """All rows of both, duplicates included; columns are matched by position."""
        return self._combine_rows(other, "UNION ALL", stages.check_same_columns)

    def intersect(self, other: Relation, *, all: bool = False) -> Relation:
        """Rows that both have: each once, or with `all` as often as both have it."""
        return self._combine_rows(other, "INTERSECT ALL" if all else "INTERSECT", *_COMPARED)

    def except_(self, other: Relation, *, all: bool = False) -> Relation:
        """Rows that the other relation lacks: each once, or with `all` as often as it occurs here more often."""
        return self._combine_rows(other, "EXCEPT ALL" if all else "EXCEPT", *_COMPARED)

    def explode(self, column: str, as_: str, *, outer: bool = False) -> Relation:
        """One row for each element of an array; with `outer` also the rows whose array is empty or NULL."""
        tree = _parse_row_expression(column)
        view = f"LATERAL VIEW{' OUTER' if outer else ''} EXPLODE({to_sql(tree)}) `_made` AS {quote_name(as_)}"
        query = f"SELECT {quote_name(self.name)}.*, `_made`.{quote_name(as_)} FROM {self._from_clause} {view}"
        return self._add_query(query, partial(stages.check_known, [tree]), partial(stages.check_free, [as_]))

    def window(self, by: Columns = (), **named: str) -> Relation:
        """All columns and computed window columns: `window(rank="rank() OVER (PARTITION BY site ORDER BY at)")`.

        `by` gives the partition of the windows whose OVER has no PARTITION BY.
        """
        names = _to_names(by)
        trees = {n: _parse_window(t, names) for n, t in named.items()}
        if not trees:
            raise _build_error('window() needs a column, such as n="row_number() OVER (ORDER BY at)"')
        keys = [k for t in trees.values() for w in t.find_all(exp.Window) for k in w.args.get("partition_by") or []]
        plain = tuple(k.name for k in keys if isinstance(k, exp.Column))
        return self._add_query(
            f"SELECT {_format_select_list([exp.Star()], trees)} FROM {self._from_clause}",
            partial(stages.check_known, tuple(trees.values())),
            partial(stages.check_free, tuple(trees)),
            partial(stages.check_comparable, plain),
        )

    def top(self, limit: int, by: Columns, *, skip: int = 0) -> Relation:
        """The first rows in an order: `top(10, by=["score DESC", "url"])`."""
        order = [_parse_order(o) for o in _to_names(by)]
        if not order or limit < 0 or skip < 0:
            raise _build_error("top() needs an order, as in top(10, by='score DESC'), and numbers from 0")
        offset = f" OFFSET {skip}" if skip else ""
        query = f"SELECT * FROM {self._from_clause} ORDER BY {', '.join(map(to_sql, order))} LIMIT {limit}{offset}"
        return self._add_query(query, partial(stages.check_known, order))

    def apply(self, by: Columns, function: Callable[..., Any], returns: str) -> Relation:
        """Apply a function to the rows of each group, from one pandas frame to another; the `by` columns come first.

        `returns` is the schema of its result without the `by` columns, such as "n bigint, m double".
        """
        keys = tuple(_parse_column(c).name for c in _to_names(by))
        if not keys:
            raise _build_error("apply() needs at least one column to group by")
        try:
            schema = Schema.from_ddl(returns)
        except ValueError as error:
            raise _build_error(str(error)) from error
        repeated = sorted({k.lower() for k in keys} & {n.lower() for n in schema.names})
        if repeated:
            raise _build_error(f"apply() puts {repeated[0]!r} in front by itself; leave it out of returns")
        rules = (partial(stages.check_columns, keys), partial(stages.check_comparable, keys))
        inputs = ((self.name, self.stage),)
        return replace(self, stage=stages.ApplyStage(inputs, keys, function, schema, find_caller(), rules))

    @property
    def _from_clause(self) -> str:
        return f"_0 AS {quote_name(self.name)}"

    def _add_query(self, query: str, *rules: stages.Rule) -> Relation:
        return replace(self, stage=stages.SelectStage(query, ((self.name, self.stage),), find_caller(), rules))

    def _combine_rows(self, other: Relation, operator: str, *rules: stages.Rule) -> Relation:
        return self._combine_with(other, "SELECT * FROM ", f" {operator} SELECT * FROM ", "", *rules)

    def _combine_with(self, other: Relation, start: str, between: str, end: str, *rules: stages.Rule) -> Relation:
        """A query of both relations, given the texts before, between and after their names."""
        names = _name_sides(self, other)
        left, right = (f"_{i} AS {quote_name(n)}" for i, n in enumerate(names))
        inputs = tuple(zip(names, (self.stage, other.stage), strict=True))
        query = f"{start}{left}{between}{right}{end}"
        return replace(self, stage=stages.SelectStage(query, inputs, find_caller(), rules))

    def _join_where(self, other: Relation, kind: JoinKind, condition: exp.Expr) -> Relation:
        if self.name.lower() == other.name.lower():
            raise _build_error(f"both sides of the join are called {self.name!r}; give one another name with alias()")
        is_filter = kind in (JoinKind.SEMI, JoinKind.ANTI)
        select_list = f"{quote_name(self.name)}.*" + ("" if is_filter else f", {quote_name(other.name)}.*")
        sides = [(s.this, s.expression) for s in condition.find_all(exp.EQ, exp.NullSafeEQ)]
        equal = tuple(c.name for pair in sides for c in pair if isinstance(c, exp.Column))
        rules = [partial(stages.check_known, [condition]), partial(stages.check_comparable, equal)]
        rules += [] if is_filter else [partial(stages.check_shared, ())]
        return self._add_join(other, kind, select_list, to_sql(condition), *rules)

    def _join_using(self, other: Relation, kind: JoinKind, names: tuple[str, ...]) -> Relation:
        """A join on shared columns, written out so that a key that is one side's column stays that column."""
        left, right = map(quote_name, _name_sides(self, other))
        on = " AND ".join(f"{left}.{quote_name(n)} = {right}.{quote_name(n)}" for n in names)
        comparable = partial(stages.check_comparable, names)
        if kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self._add_join(other, kind, f"{left}.*", on, partial(stages.check_columns, names), comparable)
        keys = [_format_using_key(kind, left, right, quote_name(n)) for n in names]
        remainder = f"EXCEPT ({', '.join(map(quote_name, names))})"
        select_list = f"{', '.join(keys)}, {left}.* {remainder}, {right}.* {remainder}"
        return self._add_join(other, kind, select_list, on, partial(stages.check_shared, names), comparable)

    def _add_join(self, other: Relation, kind: JoinKind, select_list: str, on: str, *rules: stages.Rule) -> Relation:
        return self._combine_with(other, f"SELECT {select_list} FROM ", f" {kind.sql} ", f" ON {on}", *rules)


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of a relation, to be aggregated with `agg`."""

    relation: Relation
    keys: Mapping[str, exp.Expr]  # by the names of their columns

    def agg(self, **aggregates: str) -> Relation:
        """One row for each group: its keys and aggregates: `agg(n="count(*)", users="count(DISTINCT user)")`."""
        expressions = {n: _parse_any_expression(t) for n, t in aggregates.items()}
        for name, tree in expressions.items():
            if not find_aggregate_calls([tree]):
                raise _build_error(f"{name}={aggregates[name]!r} has no aggregate in it, such as count(*) or max(x)")
        if not expressions and not self.keys:
            raise _build_error("agg() needs an aggregate, such as n='count(*)', or groups")
        repeated = sorted(self.keys.keys() & expressions.keys())
        if repeated:
            raise _build_error(f"{repeated[0]!r} is a key of the groups already; choose another name")
        plain = tuple(k.name for k in self.keys.values() if isinstance(k, exp.Column))
        values = {**self.keys, **expressions}
        clause = f" GROUP BY {', '.join(map(to_sql, self.keys.values()))}" if self.keys else ""
        return self.relation._add_query(
            f"SELECT {_format_select_list([], values)} FROM {self.relation._from_clause}{clause}",
            partial(stages.check_known, tuple(values.values())),
            partial(stages.check_comparable, plain),
        )


_COMPARED: tuple[stages.Rule, ...] = (stages.check_same_columns, partial(stages.check_comparable, None))


def _build_error(problem: str) -> WorkflowError:
    return WorkflowError([f"{find_caller()}: {problem}"])


def _parse_any_expression(text: str) -> exp.Expr:
    try:
        tree = parse_expression(text).copy()
    except SqlglotError as error:
        raise _build_error(f"{text!r} is not an expression of Spark SQL") from error
    if tree.find(exp.Query):
        raise _build_error(f"{text!r} has a query in it; join() with the other relation instead, or use sql()")
    return tree


def _parse_row_expression(text: str) -> exp.Expr:
    tree = _parse_any_expression(text)
    calls = find_aggregate_calls([tree])
    if calls:
        hint = "write group_by(…).agg(…), or window(…) with OVER"
        raise _build_error(f"{next(iter(calls))} aggregates many rows; {hint}")
    return tree


def _parse_column(text: str) -> exp.Column:
    tree = _parse_any_expression(text)
    if not isinstance(tree, exp.Column) or tree.table:
        hint = "give an expression a name: day='to_date(at)'"
        raise _build_error(f"expected the name of a column, found {text!r}; {hint}")
    return tree


def _parse_order(text: str) -> exp.Expr:
    try:
        orders = parse_query(f"SELECT 1 ORDER BY {text}").args["order"].expressions
    except (SqlglotError, KeyError) as error:
        raise _build_error(f"{text!r} is not an order; write it like 'score DESC'") from error
    if len(orders) != 1:
        raise _build_error(f"{text!r} is more than one order; write them as a list")
    order: exp.Expr = orders[0]
    return order


def _parse_window(text: str, by: Sequence[str]) -> exp.Expr:
    tree = _parse_any_expression(text)
    windows = list(tree.find_all(exp.Window))
    if not windows:
        raise _build_error(f"{text!r} has no OVER; write it like 'row_number() OVER (PARTITION BY site ORDER BY at)'")
    for window in windows:
        if not window.args.get("partition_by"):
            window.set("partition_by", [_parse_column(c) for c in by])
    return tree


def _find_using_columns(on: Columns) -> tuple[str, ...] | None:
    """The column names, if `on` consists of plain columns; None if it is a condition."""
    trees = [_parse_any_expression(t) for t in _to_names(on)]
    if not trees:
        raise _build_error("join() needs columns that both sides have, or a condition")
    columns = [t.name for t in trees if isinstance(t, exp.Column) and not t.table]
    return tuple(columns) if len(columns) == len(trees) else None


def _format_using_key(kind: JoinKind, left: str, right: str, name: str) -> str:
    """The shared column, taken from the side that has it in every row."""
    if kind is JoinKind.FULL:
        return f"COALESCE({left}.{name}, {right}.{name}) AS {name}"
    return f"{right if kind is JoinKind.RIGHT else left}.{name}"


def _name_sides(left: Relation, right: Relation) -> tuple[str, str]:
    """The names of the two sides; "left" and "right" if they have the same name."""
    is_same = left.name.lower() == right.name.lower()
    return ("left", "right") if is_same else (left.name, right.name)


def _format_select_list(trees: Iterable[exp.Expr], named: Mapping[str, exp.Expr]) -> str:
    return ", ".join([*map(to_sql, trees), *(f"{to_sql(t)} AS {quote_name(n)}" for n, t in named.items())])


def _to_names(columns: Columns) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)
