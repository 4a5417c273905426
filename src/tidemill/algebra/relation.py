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

from tidemill.algebra.dialect import parse, parse_expression, text_of
from tidemill.algebra.expression import quoted
from tidemill.algebra.operators import JoinKind
from tidemill.algebra.sql.grouping import aggregate_calls
from tidemill.algebra.stages import Applied, Rule, Select, Stage, comparable, has, knows, lacks, same_columns, shares
from tidemill.errors import WorkflowError
from tidemill.model.location import caller
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
        trees = [_by_row(c) for c in columns]
        made = {n: _by_row(t) for n, t in named.items()}
        if not trees and not made:
            raise _refused("select() needs at least one column")
        free = [lacks(tuple(named))] if any(_everything(t) for t in trees) else []
        rules = (*map(knows, (*trees, *made.values())), *free)
        return self._query(f"SELECT {_list(trees, made)} FROM {self._table}", rules)

    def where(self, condition: str) -> Relation:
        """Only the rows for which the condition is true."""
        tree = _by_row(condition)
        if tree.find(exp.Window):
            raise _refused(f"{condition!r} looks at other rows; add it as a column with window() first")
        return self._query(f"SELECT * FROM {self._table} WHERE {text_of(tree)}", (knows(tree),))

    def split(self, condition: str) -> tuple[Relation, Relation]:
        """The rows for which the condition is true, and all others."""
        return self.where(condition), self.where(f"NOT COALESCE(({condition}), FALSE)")

    def distinct(self) -> Relation:
        """Each row once."""
        return self._query(f"SELECT DISTINCT * FROM {self._table}", (comparable(),))

    def group_by(self, *columns: str, **named: str) -> Groups:
        """Groups of rows that agree on columns and expressions; without any, all rows are one group."""
        keys = {c: _column(c) for c in columns} | {n: _by_row(t) for n, t in named.items()}
        return Groups(self, keys)

    def join(self, other: Relation, on: Columns, how: str = "inner") -> Relation:
        """Pairs of rows. `on` names columns that both sides have, which appear once, or is a condition.

        `how` is inner, left, right, full, semi (rows that have a partner) or anti (rows that have none).
        """
        kind = _kind(how)
        names = _shared(on)
        if names is None:
            return self._join_where(other, kind, _all_of(on))
        return self._join_using(other, kind, names)

    def union(self, other: Relation) -> Relation:
        """All rows of both, duplicates included; columns are matched by position."""
        return self._with(other, "SELECT * FROM {} UNION ALL SELECT * FROM {}", (same_columns,))

    def intersect(self, other: Relation, *, all: bool = False) -> Relation:
        """Rows that both have: each once, or with `all` as often as both have it."""
        return self._with(other, f"SELECT * FROM {{}} INTERSECT{_all(all)} SELECT * FROM {{}}", _COMPARED)

    def except_(self, other: Relation, *, all: bool = False) -> Relation:
        """Rows that the other lacks: each once, or with `all` as often as it is here more often."""
        return self._with(other, f"SELECT * FROM {{}} EXCEPT{_all(all)} SELECT * FROM {{}}", _COMPARED)

    def explode(self, column: str, as_: str, *, outer: bool = False) -> Relation:
        """Each row once for each element of an array; with `outer` also rows whose array is empty or NULL."""
        tree = _by_row(column)
        view = f"LATERAL VIEW{' OUTER' if outer else ''} EXPLODE({text_of(tree)}) `_made` AS {quoted(as_)}"
        query = f"SELECT {quoted(self.name)}.*, `_made`.{quoted(as_)} FROM {self._table} {view}"
        return self._query(query, (knows(tree), lacks((as_,))))

    def window(self, by: Columns = (), **named: str) -> Relation:
        """All columns and some that look at other rows: `window(rank="rank() OVER (PARTITION BY site ORDER BY at)")`.

        `by` gives the partition of those whose OVER does not say.
        """
        names = _names(by)
        trees = {n: _partitioned(t, names) for n, t in named.items()}
        if not trees:
            raise _refused('window() needs a column, such as n="row_number() OVER (ORDER BY at)"')
        keys = [k for t in trees.values() for w in t.find_all(exp.Window) for k in w.args.get("partition_by") or []]
        plain = tuple(k.name for k in keys if isinstance(k, exp.Column))
        rules = (*map(knows, trees.values()), lacks(tuple(trees)), comparable(plain))
        return self._query(f"SELECT {_list([exp.Star()], trees)} FROM {self._table}", rules)

    def top(self, limit: int, by: Columns, *, skip: int = 0) -> Relation:
        """The first rows in an order: `top(10, by=["score DESC", "url"])`."""
        order = [_ordered(o) for o in _names(by)]
        if not order or limit < 0 or skip < 0:
            raise _refused("top() needs an order, as in top(10, by='score DESC'), and numbers from 0 on")
        after = f" OFFSET {skip}" if skip else ""
        query = f"SELECT * FROM {self._table} ORDER BY {', '.join(map(text_of, order))} LIMIT {limit}{after}"
        return self._query(query, tuple(map(knows, order)))

    def apply(self, by: Columns, function: Callable[..., Any], returns: str) -> Relation:
        """A function of the rows of each group, from one pandas frame to another; `by` stays in front of its columns.

        `returns` is the schema of what it returns, such as "n bigint, m double".
        """
        keys = tuple(_column(c).name for c in _names(by))
        if not keys:
            raise _refused("apply() needs at least one column to group by")
        schema = _schema(returns)
        twice = sorted({k.lower() for k in keys} & {n.lower() for n in schema.names})
        if twice:
            raise _refused(f"apply() puts {twice[0]!r} in front by itself; leave it out of returns")
        rules = (has(keys), comparable(keys))
        return replace(self, stage=Applied((self.name, self.stage), keys, function, schema, caller(), rules))

    # -- queries -------------------------------------------------------------------------------------------------

    @property
    def _table(self) -> str:
        return f"_0 AS {quoted(self.name)}"

    def _query(self, query: str, rules: tuple[Rule, ...]) -> Relation:
        return replace(self, stage=Select(query, ((self.name, self.stage),), caller(), rules))

    def _with(self, other: Relation, query: str, rules: tuple[Rule, ...]) -> Relation:
        names = _called(self, other)
        tables = [f"_{i} AS {quoted(n)}" for i, n in enumerate(names)]
        inputs = tuple(zip(names, (self.stage, other.stage), strict=True))
        return replace(self, stage=Select(query.format(*tables), inputs, caller(), rules))

    def _join_where(self, other: Relation, kind: JoinKind, condition: exp.Expr) -> Relation:
        if self.name.lower() == other.name.lower():
            raise _refused(f"both sides of the join are called {self.name!r}; give one another name with alias()")
        half = kind in (JoinKind.SEMI, JoinKind.ANTI)
        shown = f"{quoted(self.name)}.*" + ("" if half else f", {quoted(other.name)}.*")
        sides = [(s.this, s.expression) for s in condition.find_all(exp.EQ, exp.NullSafeEQ)]
        equal = tuple(c.name for pair in sides for c in pair if isinstance(c, exp.Column))
        rules = (knows(condition), comparable(equal), *([] if half else [shares(())]))
        return self._joined(other, kind, shown, text_of(condition), rules)

    def _join_using(self, other: Relation, kind: JoinKind, names: tuple[str, ...]) -> Relation:
        """Spelled out, so that a key that is one side's own column stays one."""
        left, right = map(quoted, _called(self, other))
        on = " AND ".join(f"{left}.{quoted(n)} = {right}.{quoted(n)}" for n in names)
        if kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self._joined(other, kind, f"{left}.*", on, (has(names), comparable(names)))
        keys = [_key(kind, left, right, quoted(n)) for n in names]
        rest = f"EXCEPT ({', '.join(map(quoted, names))})"
        shown = f"{', '.join(keys)}, {left}.* {rest}, {right}.* {rest}"
        return self._joined(other, kind, shown, on, (shares(names), comparable(names)))

    def _joined(self, other: Relation, kind: JoinKind, shown: str, on: str, rules: tuple[Rule, ...]) -> Relation:
        braces = str.maketrans({"{": "{{", "}": "}}"})  # the user's own are no places for tables
        query = f"SELECT {shown.translate(braces)} FROM {{}} {_JOIN[kind]} {{}} ON {on.translate(braces)}"
        return self._with(other, query, rules)


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of a relation, waiting to be aggregated."""

    relation: Relation
    keys: Mapping[str, exp.Expr]  # by the names of their columns

    def agg(self, **aggregates: str) -> Relation:
        """A row for each group, of its keys and of aggregates: `agg(n="count(*)", users="count(DISTINCT user)")`."""
        made = {n: _expression(t) for n, t in aggregates.items()}
        for name, tree in made.items():
            if not aggregate_calls([tree]):
                raise _refused(f"{name}={aggregates[name]!r} has no aggregate in it, such as count(*) or max(x)")
        if not made and not self.keys:
            raise _refused("agg() needs an aggregate, such as n='count(*)', or groups")
        twice = sorted(self.keys.keys() & made.keys())
        if twice:
            raise _refused(f"{twice[0]!r} is a key of the groups already; choose another name")
        plain = tuple(k.name for k in self.keys.values() if isinstance(k, exp.Column))
        rules = (*map(knows, (*self.keys.values(), *made.values())), comparable(plain))
        by = f" GROUP BY {', '.join(map(text_of, self.keys.values()))}" if self.keys else ""
        return self.relation._query(f"SELECT {_list([], {**self.keys, **made})} FROM {self.relation._table}{by}", rules)


_COMPARED: tuple[Rule, ...] = (same_columns, comparable())


def _refused(problem: str) -> WorkflowError:
    return WorkflowError([f"{caller()}: {problem}"])


def _expression(text: str) -> exp.Expr:
    try:
        tree = parse_expression(text).copy()
    except SqlglotError as error:
        raise _refused(f"{text!r} is not an expression of Spark SQL") from error
    if tree.find(exp.Query):
        raise _refused(f"{text!r} has a query in it; join() with the other relation instead, or use sql()")
    return tree


def _by_row(text: str) -> exp.Expr:
    tree = _expression(text)
    calls = aggregate_calls([tree])
    if calls:
        raise _refused(f"{next(iter(calls))} is of many rows; write group_by(…).agg(…), or window(…) with OVER")
    return tree


def _column(text: str) -> exp.Column:
    tree = _expression(text)
    if not isinstance(tree, exp.Column) or tree.table:
        raise _refused(f"expected the name of a column, found {text!r}; give an expression a name: day='to_date(at)'")
    return tree


def _ordered(text: str) -> exp.Expr:
    try:
        found = parse(f"SELECT 1 ORDER BY {text}").args["order"].expressions
    except (SqlglotError, KeyError) as error:
        raise _refused(f"{text!r} is not an order; write it like 'score DESC'") from error
    if len(found) != 1:
        raise _refused(f"{text!r} is more than one order; write them as a list")
    order: exp.Expr = found[0]
    return order


def _partitioned(text: str, by: Sequence[str]) -> exp.Expr:
    tree = _expression(text)
    windows = list(tree.find_all(exp.Window))
    if not windows:
        raise _refused(f"{text!r} has no OVER; write it like 'row_number() OVER (PARTITION BY site ORDER BY at)'")
    for window in windows:
        if not window.args.get("partition_by"):
            window.set("partition_by", [_column(c) for c in by])
    return tree


def _shared(on: Columns) -> tuple[str, ...] | None:
    """The columns, if columns are what a join is on."""
    trees = [_expression(t) for t in _names(on)]
    if not trees:
        raise _refused("join() needs columns that both sides have, or a condition")
    columns = [t.name for t in trees if isinstance(t, exp.Column) and not t.table]
    return tuple(columns) if len(columns) == len(trees) else None


def _all_of(on: Columns) -> exp.Expr:
    return exp.and_(*(_by_row(t) for t in _names(on)), copy=False)


def _kind(how: str) -> JoinKind:
    if how not in list(JoinKind):
        raise _refused(f"how is one of {', '.join(JoinKind)}, not {how!r}")
    return JoinKind(how)


def _key(kind: JoinKind, left: str, right: str, name: str) -> str:
    """The column that both sides have, from the one that has it in every row."""
    if kind is JoinKind.FULL:
        return f"COALESCE({left}.{name}, {right}.{name}) AS {name}"
    return f"{right if kind is JoinKind.RIGHT else left}.{name}"


def _called(left: Relation, right: Relation) -> tuple[str, str]:
    """What the two are called; by their sides where their names do not tell them apart."""
    same = left.name.lower() == right.name.lower()
    return ("left", "right") if same else (left.name, right.name)


def _schema(ddl: str) -> Schema:
    try:
        return Schema.parse(ddl)
    except ValueError as error:
        raise _refused(str(error)) from error


def _everything(tree: exp.Expr) -> bool:
    return bool(tree.is_star) and not any(s.args.get("except_") for s in tree.find_all(exp.Star))


def _list(trees: Iterable[exp.Expr], named: Mapping[str, exp.Expr]) -> str:
    return ", ".join([*map(text_of, trees), *(f"{text_of(t)} AS {quoted(n)}" for n, t in named.items())])


def _names(given: Columns) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _all(wanted: bool) -> str:
    return " ALL" if wanted else ""
