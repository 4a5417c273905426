"""Relations: queries written as method calls instead of SQL text.

scores = clicks.select("site", "user").distinct().group_by("site").agg(score="ln(1 + count(*))")

Expressions are Spark SQL. Nothing is computed: a relation only remembers what was asked for, and where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidemill.algebra.dialect import parse_expression, parse_query, to_sql
from tidemill.algebra.expression import quote_name
from tidemill.algebra.operators import JoinKind
from tidemill.algebra.sql.grouping import find_aggregate_calls
from tidemill.algebra.stages import (
    ApplyStage,
    Rule,
    SelectStage,
    Stage,
    check_same_columns,
    require_columns,
    require_comparable,
    require_free,
    require_known,
    require_shared,
)
from tidemill.errors import WorkflowError
from tidemill.model.location import find_caller
from tidemill.model.schema import Schema

Columns = str | Sequence[str]

_JOIN = {
    JoinKind.INNER: "INNER JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "LEFT SEMI JOIN",
    JoinKind.ANTI: "LEFT ANTI JOIN",
}


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows to be derived from channels. `name` is what a join's condition calls them: `clicks.site = pages.site`."""

    name: str
    stage: Stage

    def alias(self, name: str) -> Relation:
        """The same rows under another name."""
        return replace(self, name=name)

    def select(self, *columns: str, **named: str) -> Relation:
        """Only these columns and expressions: `select("user", score="ln(1 + n)")`; "*" stands for all there are."""
        trees = [_parse_row_expression(c) for c in columns]
        made = {n: _parse_row_expression(t) for n, t in named.items()}
        if not trees and not made:
            raise _build_error("select() needs at least one column")
        free = [require_free(tuple(named))] if any(_is_plain_star(t) for t in trees) else []
        rules = (*map(require_known, (*trees, *made.values())), *free)
        return self._add_query(f"SELECT {_format_select_list(trees, made)} FROM {self._from_clause}", rules)

    def where(self, condition: str) -> Relation:
        """Only the rows for which the condition is true."""
        tree = _parse_row_expression(condition)
        if tree.find(exp.Window):
            raise _build_error(f"{condition!r} looks at other rows; add it as a column with window() first")
        return self._add_query(f"SELECT * FROM {self._from_clause} WHERE {to_sql(tree)}", (require_known(tree),))

    def split(self, condition: str) -> tuple[Relation, Relation]:
        """The rows for which the condition is true, and all others."""
        return self.where(condition), self.where(f"NOT COALESCE(({condition}), FALSE)")

    def distinct(self) -> Relation:
        """Each row once."""
        return self._add_query(f"SELECT DISTINCT * FROM {self._from_clause}", (require_comparable(),))

    def group_by(self, *columns: str, **named: str) -> Groups:
        """Groups of rows that agree on columns and expressions; without any, all rows are one group."""
        keys = {c: _parse_column(c) for c in columns} | {n: _parse_row_expression(t) for n, t in named.items()}
        return Groups(self, keys)

    def join(self, other: Relation, on: Columns, how: str = "inner") -> Relation:
        """Pairs of rows. `on` names columns that both sides have, which appear once, or is a condition.

        `how` is inner, left, right, full, semi (rows that have a partner) or anti (rows that have none).
        """
        kind = _parse_join_kind(how)
        names = _find_using_columns(on)
        if names is None:
            return self._join_where(other, kind, _parse_conditions(on))
        return self._join_using(other, kind, names)

    def union(self, other: Relation) -> Relation:
        """All rows of both, duplicates included; columns are matched by position."""
        return self._combine_with(other, "SELECT * FROM {} UNION ALL SELECT * FROM {}", (check_same_columns,))

    def intersect(self, other: Relation, *, all: bool = False) -> Relation:
        """Rows that both have: each once, or with `all` as often as both have it."""
        return self._combine_with(
            other, f"SELECT * FROM {{}} INTERSECT{_format_all(all)} SELECT * FROM {{}}", _COMPARED
        )

    def except_(self, other: Relation, *, all: bool = False) -> Relation:
        """Rows that the other lacks: each once, or with `all` as often as it is here more often."""
        return self._combine_with(other, f"SELECT * FROM {{}} EXCEPT{_format_all(all)} SELECT * FROM {{}}", _COMPARED)

    def explode(self, column: str, as_: str, *, outer: bool = False) -> Relation:
        """Each row once for each element of an array; with `outer` also rows whose array is empty or NULL."""
        tree = _parse_row_expression(column)
        view = f"LATERAL VIEW{' OUTER' if outer else ''} EXPLODE({to_sql(tree)}) `_made` AS {quote_name(as_)}"
        query = f"SELECT {quote_name(self.name)}.*, `_made`.{quote_name(as_)} FROM {self._from_clause} {view}"
        return self._add_query(query, (require_known(tree), require_free((as_,))))

    def window(self, by: Columns = (), **named: str) -> Relation:
        """All columns and some that look at other rows: `window(rank="rank() OVER (PARTITION BY site ORDER BY at)")`.

        `by` gives the partition of those whose OVER does not say.
        """
        names = _to_names(by)
        trees = {n: _parse_window(t, names) for n, t in named.items()}
        if not trees:
            raise _build_error('window() needs a column, such as n="row_number() OVER (ORDER BY at)"')
        keys = [k for t in trees.values() for w in t.find_all(exp.Window) for k in w.args.get("partition_by") or []]
        plain = tuple(k.name for k in keys if isinstance(k, exp.Column))
        rules = (*map(require_known, trees.values()), require_free(tuple(trees)), require_comparable(plain))
        return self._add_query(f"SELECT {_format_select_list([exp.Star()], trees)} FROM {self._from_clause}", rules)

    def top(self, limit: int, by: Columns, *, skip: int = 0) -> Relation:
        """The first rows in an order: `top(10, by=["score DESC", "url"])`."""
        order = [_parse_order(o) for o in _to_names(by)]
        if not order or limit < 0 or skip < 0:
            raise _build_error("top() needs an order, as in top(10, by='score DESC'), and numbers from 0 on")
        after = f" OFFSET {skip}" if skip else ""
        query = f"SELECT * FROM {self._from_clause} ORDER BY {', '.join(map(to_sql, order))} LIMIT {limit}{after}"
        return self._add_query(query, tuple(map(require_known, order)))

    def apply(self, by: Columns, function: Callable[..., Any], returns: str) -> Relation:
        """A function of the rows of each group, from one pandas frame to another; `by` stays in front of its columns.

        `returns` is the schema of what it returns, such as "n bigint, m double".
        """
        keys = tuple(_parse_column(c).name for c in _to_names(by))
        if not keys:
            raise _build_error("apply() needs at least one column to group by")
        schema = _parse_schema(returns)
        twice = sorted({k.lower() for k in keys} & {n.lower() for n in schema.names})
        if twice:
            raise _build_error(f"apply() puts {twice[0]!r} in front by itself; leave it out of returns")
        rules = (require_columns(keys), require_comparable(keys))
        return replace(self, stage=ApplyStage((self.name, self.stage), keys, function, schema, find_caller(), rules))

    # -- queries -------------------------------------------------------------------------------------------------

    @property
    def _from_clause(self) -> str:
        return f"_0 AS {quote_name(self.name)}"

    def _add_query(self, query: str, rules: tuple[Rule, ...]) -> Relation:
        return replace(self, stage=SelectStage(query, ((self.name, self.stage),), find_caller(), rules))

    def _combine_with(self, other: Relation, query: str, rules: tuple[Rule, ...]) -> Relation:
        names = _name_sides(self, other)
        tables = [f"_{i} AS {quote_name(n)}" for i, n in enumerate(names)]
        inputs = tuple(zip(names, (self.stage, other.stage), strict=True))
        return replace(self, stage=SelectStage(query.format(*tables), inputs, find_caller(), rules))

    def _join_where(self, other: Relation, kind: JoinKind, condition: exp.Expr) -> Relation:
        if self.name.lower() == other.name.lower():
            raise _build_error(f"both sides of the join are called {self.name!r}; give one another name with alias()")
        half = kind in (JoinKind.SEMI, JoinKind.ANTI)
        shown = f"{quote_name(self.name)}.*" + ("" if half else f", {quote_name(other.name)}.*")
        sides = [(s.this, s.expression) for s in condition.find_all(exp.EQ, exp.NullSafeEQ)]
        equal = tuple(c.name for pair in sides for c in pair if isinstance(c, exp.Column))
        rules = (require_known(condition), require_comparable(equal), *([] if half else [require_shared(())]))
        return self._add_join(other, kind, shown, to_sql(condition), rules)

    def _join_using(self, other: Relation, kind: JoinKind, names: tuple[str, ...]) -> Relation:
        """Spelled out, so that a key that is one side's own column stays one."""
        left, right = map(quote_name, _name_sides(self, other))
        on = " AND ".join(f"{left}.{quote_name(n)} = {right}.{quote_name(n)}" for n in names)
        if kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self._add_join(other, kind, f"{left}.*", on, (require_columns(names), require_comparable(names)))
        keys = [_format_using_key(kind, left, right, quote_name(n)) for n in names]
        rest = f"EXCEPT ({', '.join(map(quote_name, names))})"
        shown = f"{', '.join(keys)}, {left}.* {rest}, {right}.* {rest}"
        return self._add_join(other, kind, shown, on, (require_shared(names), require_comparable(names)))

    def _add_join(self, other: Relation, kind: JoinKind, shown: str, on: str, rules: tuple[Rule, ...]) -> Relation:
        braces = str.maketrans({"{": "{{", "}": "}}"})  # the user's own are no places for tables
        query = f"SELECT {shown.translate(braces)} FROM {{}} {_JOIN[kind]} {{}} ON {on.translate(braces)}"
        return self._combine_with(other, query, rules)


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of a relation, waiting to be aggregated."""

    relation: Relation
    keys: Mapping[str, exp.Expr]  # by the names of their columns

    def agg(self, **aggregates: str) -> Relation:
        """A row for each group, of its keys and of aggregates: `agg(n="count(*)", users="count(DISTINCT user)")`."""
        made = {n: _parse_any_expression(t) for n, t in aggregates.items()}
        for name, tree in made.items():
            if not find_aggregate_calls([tree]):
                raise _build_error(f"{name}={aggregates[name]!r} has no aggregate in it, such as count(*) or max(x)")
        if not made and not self.keys:
            raise _build_error("agg() needs an aggregate, such as n='count(*)', or groups")
        twice = sorted(self.keys.keys() & made.keys())
        if twice:
            raise _build_error(f"{twice[0]!r} is a key of the groups already; choose another name")
        plain = tuple(k.name for k in self.keys.values() if isinstance(k, exp.Column))
        rules = (*map(require_known, (*self.keys.values(), *made.values())), require_comparable(plain))
        by = f" GROUP BY {', '.join(map(to_sql, self.keys.values()))}" if self.keys else ""
        return self.relation._add_query(
            f"SELECT {_format_select_list([], {**self.keys, **made})} FROM {self.relation._from_clause}{by}", rules
        )


_COMPARED: tuple[Rule, ...] = (check_same_columns, require_comparable())


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
        raise _build_error(f"{next(iter(calls))} is of many rows; write group_by(…).agg(…), or window(…) with OVER")
    return tree


def _parse_column(text: str) -> exp.Column:
    tree = _parse_any_expression(text)
    if not isinstance(tree, exp.Column) or tree.table:
        raise _build_error(
            f"expected the name of a column, found {text!r}; give an expression a name: day='to_date(at)'"
        )
    return tree


def _parse_order(text: str) -> exp.Expr:
    try:
        found = parse_query(f"SELECT 1 ORDER BY {text}").args["order"].expressions
    except (SqlglotError, KeyError) as error:
        raise _build_error(f"{text!r} is not an order; write it like 'score DESC'") from error
    if len(found) != 1:
        raise _build_error(f"{text!r} is more than one order; write them as a list")
    order: exp.Expr = found[0]
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
    """The columns, if columns are what a join is on."""
    trees = [_parse_any_expression(t) for t in _to_names(on)]
    if not trees:
        raise _build_error("join() needs columns that both sides have, or a condition")
    columns = [t.name for t in trees if isinstance(t, exp.Column) and not t.table]
    return tuple(columns) if len(columns) == len(trees) else None


def _parse_conditions(on: Columns) -> exp.Expr:
    return exp.and_(*(_parse_row_expression(t) for t in _to_names(on)), copy=False)


def _parse_join_kind(how: str) -> JoinKind:
    if how not in list(JoinKind):
        raise _build_error(f"how is one of {', '.join(JoinKind)}, not {how!r}")
    return JoinKind(how)


def _format_using_key(kind: JoinKind, left: str, right: str, name: str) -> str:
    """The column that both sides have, from the one that has it in every row."""
    if kind is JoinKind.FULL:
        return f"COALESCE({left}.{name}, {right}.{name}) AS {name}"
    return f"{right if kind is JoinKind.RIGHT else left}.{name}"


def _name_sides(left: Relation, right: Relation) -> tuple[str, str]:
    """What the two are called; by their sides where their names do not tell them apart."""
    same = left.name.lower() == right.name.lower()
    return ("left", "right") if same else (left.name, right.name)


def _parse_schema(ddl: str) -> Schema:
    try:
        return Schema.from_ddl(ddl)
    except ValueError as error:
        raise _build_error(str(error)) from error


def _is_plain_star(tree: exp.Expr) -> bool:
    return bool(tree.is_star) and not any(s.args.get("except_") for s in tree.find_all(exp.Star))


def _format_select_list(trees: Iterable[exp.Expr], named: Mapping[str, exp.Expr]) -> str:
    return ", ".join([*map(to_sql, trees), *(f"{to_sql(t)} AS {quote_name(n)}" for n, t in named.items())])


def _to_names(given: Columns) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _format_all(wanted: bool) -> str:
    return " ALL" if wanted else ""
