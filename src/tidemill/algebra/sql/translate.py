"""Translation: a query's clauses, in the order in which SQL gives them meaning, each an operator on the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidemill.algebra.dialect import parse, text_of
from tidemill.algebra.expression import Expression, column, expression, quoted
from tidemill.algebra.operators import (
    Explode,
    Filter,
    Fold,
    Group,
    JoinKind,
    Named,
    Operator,
    Project,
    Scan,
    Top,
    Union,
    Window,
    distinct,
    extend,
    repeated,
    select,
)
from tidemill.algebra.properties import find_stray_column
from tidemill.algebra.sql import subqueries
from tidemill.algebra.sql.grouping import aggregate_calls, group
from tidemill.algebra.sql.reading import NotIncremental, Source, conjuncts, expressed, read
from tidemill.algebra.sql.relation import Names, Relation, all_joined, column_tree, join
from tidemill.algebra.sql.sets import grouping_sets, many_sets
from tidemill.algebra.sql.understood import find_internal_name, function_name
from tidemill.algebra.typing import common_type, groupable, type_of


@dataclass(frozen=True, slots=True)
class Translated:
    """A query as operators, and the types of its columns as far as they are known."""

    root: Operator
    types: Mapping[str, str]


def translate(query: str, sources: Mapping[str, Source]) -> Translated:
    """The operators of a query over channels; raises `NotIncremental` with the reason if there are none."""
    sources = {name.lower(): source for name, source in sources.items()}
    tree = read(query, sources)
    found = Translator(sources).query(tree, {})
    names = _spelled(query, found.columns, sources)
    root = found.renamed(dict(zip(found.columns, names, strict=True)))
    stray = find_stray_column(root.op)
    if stray is not None:
        raise NotIncremental(f"its column {stray.rpartition('.')[2]} could not be resolved here")
    return Translated(root.op, root.types)


def _spelled(query: str, columns: tuple[str, ...], sources: Mapping[str, Source]) -> tuple[str, ...]:
    """The result's column names as the user wrote them; those without a name have their own text, as in Spark."""
    spelling = {c.lower(): c for s in sources.values() for c in s.columns}
    tree = parse(query)
    first = tree
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    items = first.expressions if isinstance(first, exp.Select) else []
    spelling |= {n.lower(): n for n in map(_own_name, items) if n}
    made = list(columns)
    if not any(i.find(exp.Star) and not i.find(exp.Count) for i in items) and len(items) == len(columns):
        for position, item in enumerate(items):
            if not _own_name(item):
                made[position] = _own_text(item)
    names = tuple(spelling.get(c, c) for c in made)
    if len({n.lower() for n in names}) < len(names):
        raise NotIncremental("two of its columns have the same name")
    return names


def _own_name(item: exp.Expr) -> str:
    return str(item.alias or (item.name if isinstance(item, exp.Column | exp.Dot) else ""))


def _own_text(item: exp.Expr) -> str:
    text: str = item.sql("spark", normalize_functions="lower")
    return text.replace("(*)", "(1)")


_QUALIFY = "_qualify"


class Translator:
    """Translates one query. `names` makes names for what the query left without."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.sources = sources
        self.names = Names()

    def query(self, tree: exp.Expr, ctes: Mapping[str, Relation]) -> Relation:
        """A query's rows, its columns under their own names."""
        ctes = self._with(tree, ctes)
        match tree:
            case exp.Subquery():
                return self._ordered(tree, self.query(tree.this, ctes), None)
            case exp.SetOperation():
                return self._ordered(tree, self._set(tree, ctes), None)
            case exp.Select():
                return self._select(tree, ctes)
        raise NotIncremental(f"{tree.key.upper()} is only known in batch")

    def _with(self, tree: exp.Expr, ctes: Mapping[str, Relation]) -> Mapping[str, Relation]:
        known = dict(ctes)
        with_ = tree.args.get("with_")
        for cte in with_.expressions if with_ else []:
            known[cte.alias] = self.query(cte.this, known)
        return known

    # -- clauses -------------------------------------------------------------------------------------------------

    def _select(self, tree: exp.Select, ctes: Mapping[str, Relation]) -> Relation:
        if tree.args.get("connect") or tree.args.get("into"):
            raise NotIncremental("CONNECT BY and INTO are only known in batch")
        _name_windows(tree)
        rows, left_over = self.rows(tree, ctes)
        if left_over:
            raise NotIncremental(f"a column of {text_of(left_over[0])} could not be resolved here")
        return self._shown(tree, rows, ctes)

    def rows(self, tree: exp.Select, ctes: Mapping[str, Relation]) -> tuple[Relation, list[exp.Expr]]:
        """FROM and WHERE; also the conditions on columns that are not there: a sub-query's on its outer query."""
        where = tree.args.get("where")
        conditions = conjuncts(where.this if where else None)
        plain = [c for c in conditions if not c.find(exp.Query)]
        nested = [c for c in conditions if c.find(exp.Query)]
        rows, rest = self._from(tree, plain, ctes)
        own = [c for c in rest if rows.has(c)]
        rows = rows.filtered(own)
        outer = [c for c in rest if not any(c is o for o in own)]
        for condition in nested:
            rows = subqueries.where(self, rows, condition, ctes)
        return rows, outer

    def _from(
        self, tree: exp.Select, conditions: list[exp.Expr], ctes: Mapping[str, Relation]
    ) -> tuple[Relation, list[exp.Expr]]:
        from_ = tree.args.get("from_")
        if from_ is None:
            raise NotIncremental("a SELECT without FROM is only known in batch")
        first, joins = self._table(from_.this, ctes), tree.args.get("joins") or []
        laterals = tree.args.get("laterals") or []
        if all(_kind(j) is JoinKind.INNER for j in joins) and not laterals:
            on = [c for j in joins for c in conjuncts(j.args.get("on"))]
            _refuse_queries(on)
            return all_joined([first, *(self._table(j.this, ctes) for j in joins)], [*on, *conditions], self.names)
        for item in joins:
            on = conjuncts(item.args.get("on"))
            _refuse_queries(on)
            first = join(first, self._table(item.this, ctes), _kind(item), on, self.names)
        for lateral in laterals:
            first = self._lateral(first, lateral)
        return first, conditions

    def _table(self, node: exp.Expr, ctes: Mapping[str, Relation]) -> Relation:
        if node.args.get("pivots") or node.args.get("sample"):
            raise NotIncremental("PIVOT and TABLESAMPLE are only known in batch")
        if isinstance(node, exp.Subquery):
            found = self.query(node.this, ctes)
        elif isinstance(node, exp.Table):
            found = ctes.get(node.name) or self._channel(node)
        else:
            raise NotIncremental(f"{node.key.upper()} in FROM is only known in batch")
        prefix = node.alias_or_name
        return found.renamed({c: f"{prefix}.{c.lower()}" for c in found.columns})

    def _channel(self, table: exp.Table) -> Relation:
        name = ".".join(p.name for p in table.parts)
        source = self.sources.get(name.lower())
        if source is None:
            raise NotIncremental(f"the columns of {name} are not known before it is written; declare its schema")
        scan = Scan(name, tuple(source.columns), keys=source.keys, append=source.append)
        return Relation(scan, source.columns)

    def _lateral(self, rows: Relation, lateral: exp.Lateral) -> Relation:
        alias = lateral.args["alias"]
        outputs = [f"{alias.name}.{c.name.lower()}" for c in alias.args.get("columns") or []]
        return self._exploded(rows, lateral.this, outputs, bool(lateral.args.get("outer")))

    def _exploded(self, rows: Relation, call: exp.Expr, outputs: list[str], outer: bool) -> Relation:
        name = function_name(call)
        wanted = {"explode": 1, "explode_outer": 1, "posexplode": 2, "posexplode_outer": 2}
        if name not in wanted or len(outputs) != wanted[name]:
            raise NotIncremental(f"{text_of(call)} is only known in batch")
        bare = expressed(call.copy())
        op = Explode(rows.op, Expression(bare.text.replace("_OUTER(", "(", 1), bare.columns), tuple(outputs),
                     outer or name.endswith("_outer"))  # fmt: skip
        return Relation(op, rows.types)

    def _shown(self, tree: exp.Select, rows: Relation, ctes: Mapping[str, Relation]) -> Relation:
        """GROUP BY, HAVING, windows, the list of columns, DISTINCT, ORDER BY with LIMIT."""
        items = {i.alias_or_name: i.unalias() if isinstance(i, exp.Alias) else i for i in tree.expressions}
        if len(items) < len(tree.expressions):
            raise NotIncremental("two of its columns have the same name")
        if name := find_internal_name(items):
            raise NotIncremental(f"a column cannot be called {name} in an incremental query")
        having, order = tree.args.get("having"), tree.args.get("order")
        limited = tree.args.get("limit") is not None
        sorting = [o.this for o in order.expressions] if order and limited else []
        qualify = tree.args.get("qualify")
        if qualify:
            items[_QUALIFY] = qualify.this
        shown = [*items.values(), *([having.this] if having else []), *sorting]
        if tree.args.get("group") or aggregate_calls(shown):
            rows, shown = self._grouped(tree, rows, shown)
        values = list(shown)
        outputs, values = dict(zip(items, values[: len(items)], strict=True)), values[len(items) :]
        if having:
            for condition in conjuncts(values.pop(0)):
                rows = subqueries.where(self, rows, condition, ctes)
        rows, outputs = self._with_subqueries(rows, outputs, ctes)
        rows, outputs = self._windows(rows, outputs)
        if qualify:
            rows = rows.filtered(conjuncts(outputs.pop(_QUALIFY)))
        rows, outputs = self._generated(rows, outputs)
        hidden = {self.names.fresh("order"): v for v in values if not _is_output(v, outputs)}
        result = _projected(rows, {**outputs, **hidden})
        if tree.args.get("distinct"):
            result = self._distinct(tree, result, hidden)
        return self._ordered(tree, result, list(hidden))

    def _distinct(self, tree: exp.Select, result: Relation, hidden: Mapping[str, exp.Expr]) -> Relation:
        if hidden or tree.args["distinct"].args.get("on"):
            raise NotIncremental("DISTINCT with an order by what is not shown is only known in batch")
        _check_groupable(result)
        return Relation(distinct(result.op), result.types)

    def _with_subqueries(
        self, rows: Relation, outputs: dict[str, exp.Expr], ctes: Mapping[str, Relation]
    ) -> tuple[Relation, dict[str, exp.Expr]]:
        for name, value in list(outputs.items()):
            if value.find(exp.Query):
                rows, outputs[name] = subqueries.values(self, rows, value, ctes)
        return rows, outputs

    # -- groups --------------------------------------------------------------------------------------------------

    def _grouped(self, tree: exp.Select, rows: Relation, shown: list[exp.Expr]) -> tuple[Relation, list[exp.Expr]]:
        calls = aggregate_calls(shown)
        grouping = {t: c for t, c in calls.items() if function_name(c) in ("grouping", "grouping_id")}
        sets = grouping_sets(tree.args.get("group"))
        keys = {text_of(k): k for one in sets for k in one}
        named = {text: k.name if isinstance(k, exp.Column) else self.names.fresh("key") for text, k in keys.items()}
        plain = {t: c for t, c in calls.items() if t not in grouping}
        if len(sets) == 1:
            made, columns = group(rows, {named[t]: k for t, k in keys.items()}, plain, self.names)
            columns |= {t: named[t] for t in keys}
        else:
            made, columns = many_sets(rows, sets, plain, grouping, self.names)
        return made, [_substituted(s, columns) for s in shown]

    # -- windows and generators ----------------------------------------------------------------------------------

    def _windows(self, rows: Relation, outputs: dict[str, exp.Expr]) -> tuple[Relation, dict[str, exp.Expr]]:
        found = {text_of(w): w for v in outputs.values() for w in v.find_all(exp.Window)}
        by_partition: dict[tuple[str, ...], list[Named]] = {}
        columns: dict[str, str] = {}
        for text, window in found.items():
            rows, partition, bare = self._partition(rows, window)
            columns[text] = self.names.fresh("win")
            by_partition.setdefault(partition, []).append(Named(columns[text], expressed(bare)))
        op = rows.op
        for partition, items in by_partition.items():
            op = Window(op, partition, tuple(items))
        return Relation(op, rows.types), {n: _substituted(v, columns) for n, v in outputs.items()}

    def _partition(self, rows: Relation, window: exp.Window) -> tuple[Relation, tuple[str, ...], exp.Expr]:
        made: dict[str, exp.Expr] = {}
        names: list[str] = []
        for key in window.args.get("partition_by") or []:
            name = key.name if isinstance(key, exp.Column) else self.names.fresh("part")
            if not isinstance(key, exp.Column):
                made[name] = key
            if not groupable(type_of(key, rows.types)):
                raise NotIncremental(f"{text_of(key)} holds a map, and Spark cannot partition by maps")
            names.append(name)
        bare = window.copy()
        bare.set("partition_by", [column_tree(n) for n in names])
        return rows.extended(made), tuple(dict.fromkeys(names)), bare

    def _generated(self, rows: Relation, outputs: dict[str, exp.Expr]) -> tuple[Relation, dict[str, exp.Expr]]:
        """explode() in the list of columns."""
        for name, value in list(outputs.items()):
            call = value.find(exp.Explode)
            if call is None:
                continue
            if call is not value or function_name(call).startswith("pos"):
                raise NotIncremental(f"{text_of(value)} is only known in batch")
            made = self.names.fresh("item")
            rows = self._exploded(rows, call, [made], outer=False)
            outputs[name] = column_tree(made)
        return rows, outputs

    # -- sets and order ------------------------------------------------------------------------------------------

    def _set(self, tree: exp.SetOperation, ctes: Mapping[str, Relation]) -> Relation:
        if tree.args.get("by_name"):
            raise NotIncremental("BY NAME is only known in batch")
        left, right = self.query(tree.left, ctes), self.query(tree.right, ctes)
        if len(left.columns) != len(right.columns):
            raise NotIncremental("the sides of a set operation have different numbers of columns")
        right = right.renamed(dict(zip(right.columns, left.columns, strict=True)))
        left, right = _of_one_type(left, right)
        types = {c: left.types.get(c, "") if left.types.get(c) == right.types.get(c) else "" for c in left.columns}
        once = bool(tree.args.get("distinct"))
        if isinstance(tree, exp.Union):
            both: Operator = Union((left.op, right.op))
            op: Operator = distinct(both) if once else both
        else:
            op = self._matched(left, right, keep_common=isinstance(tree, exp.Intersect), once=once)
        result = Relation(op, types)
        if once or not isinstance(tree, exp.Union):
            _check_groupable(result)
        return result

    def _matched(self, left: Relation, right: Relation, *, keep_common: bool, once: bool) -> Operator:
        """INTERSECT and EXCEPT: how often each row is on either side decides how often it stays."""
        here, there = self.names.fresh("left"), self.names.fresh("right")
        tagged = [
            extend(side.op, Named(here, expression(str(1 - i))), Named(there, expression(str(i))))
            for i, side in enumerate((left, right))
        ]
        folds = tuple(Fold(n, "sum", (column(n),), "INT") for n in (here, there))
        counted = Group(Union(tuple(tagged)), left.columns, folds)
        if keep_common:
            stays, times = f"{here} > 0 AND {there} > 0", f"LEAST({here}, {there})"
        elif once:
            stays, times = f"{here} > 0 AND {there} = 0", ""
        else:
            stays, times = f"{here} > {there}", f"{here} - {there}"
        kept: Operator = Filter(counted, expression(stays))
        if not once:
            kept = repeated(kept, times, self.names.fresh("time"))
        return select(kept, left.columns)

    def _ordered(self, tree: exp.Expr, result: Relation, hidden: list[str] | None) -> Relation:
        """LIMIT in an order; an order alone says nothing about a bag."""
        limit, offset, order = (tree.args.get(a) for a in ("limit", "offset", "order"))
        if limit is None and offset is None:
            return result
        if limit is None or order is None:
            raise NotIncremental("LIMIT without ORDER BY, or OFFSET alone, may give any rows")
        waiting = list(hidden or [])
        keys = []
        for item in order.expressions:
            value = item.this
            known = isinstance(value, exp.Column) and value.name in result.columns
            name = value.name if known else (waiting.pop(0) if waiting else None)
            if name is None:
                raise NotIncremental(f"the order {text_of(item)} is only known in batch")
            ordered = item.copy()
            ordered.set("this", column_tree(name))
            keys.append(expressed(ordered))
        op = Top(result.op, tuple(keys), _number(limit), _number(offset) if offset else 0)
        shown = tuple(c for c in result.columns if c not in (hidden or []))
        return Relation(select(op, shown), result.types)


def _kind(node: exp.Join) -> JoinKind:
    side, kind = (node.side or "").upper(), (node.kind or "").upper()
    if kind in ("SEMI", "ANTI"):
        return JoinKind(kind.lower())
    if node.args.get("using") or node.method or kind not in ("", "INNER", "CROSS", "OUTER"):
        raise NotIncremental(f"{text_of(node)} is only known in batch")
    return JoinKind(side.lower()) if side else JoinKind.INNER


def _name_windows(tree: exp.Select) -> None:
    """OVER w means what the WINDOW clause says of w."""
    named = {w.name: w for w in tree.args.get("windows") or []}
    for window in tree.find_all(exp.Window):
        spec = (
            named.get(str(window.args["alias"].name)) if window.args.get("alias") and window.args.get("over") else None
        )
        if spec is not None:
            window.set("alias", None)
            for part in ("partition_by", "order", "spec"):
                found = spec.args.get(part)
                window.set(part, [p.copy() for p in found] if isinstance(found, list) else found and found.copy())


def _refuse_queries(conditions: list[exp.Expr]) -> None:
    for condition in conditions:
        if condition.find(exp.Query):
            raise NotIncremental("a sub-query in ON is only known in batch")


def _projected(rows: Relation, outputs: Mapping[str, exp.Expr]) -> Relation:
    items = tuple(Named(n, expressed(v.copy())) for n, v in outputs.items())
    return Relation(Project(rows.op, items), {n: type_of(v, rows.types) for n, v in outputs.items()})


def _substituted(tree: exp.Expr, columns: Mapping[str, str]) -> exp.Expr:
    """The expression with whole sub-expressions replaced by the columns that hold them, but not a sub-query's own."""

    def swap(node: exp.Expr) -> exp.Expr:
        name = columns.get(text_of(node))
        return node if name is None or _of_subquery(node) else column_tree(name)

    return tree.copy().transform(swap)


def _of_subquery(node: exp.Expr) -> bool:
    """Does it stand in a sub-query and mean that one's rows? Its tables hide outer ones of the same name."""
    tables: set[str] = set()
    around = node.find_ancestor(exp.Select)
    while around is not None:
        tables |= {s.alias_or_name for s in _sources(around)}
        around = around.find_ancestor(exp.Select)
    used = {c.name.partition(".")[0] for c in node.find_all(exp.Column)}
    return bool(tables) and (not used or not used.isdisjoint(tables))


def _sources(tree: exp.Select) -> list[exp.Expr]:
    from_ = tree.args.get("from_")
    return [*([from_.this] if from_ else []), *(j.this for j in tree.args.get("joins") or [])]


def _of_one_type(*sides: Relation) -> tuple[Relation, ...]:
    """The sides of a set operation with their numbers cast to what Spark makes of both."""
    kinds = {c: {side.types.get(c, "") for side in sides} for c in sides[0].columns}
    wider = {c: common_type(k) for c, k in kinds.items() if len(k) > 1 and "" not in k}
    casts = {c: kind for c, kind in wider.items() if kind}
    return tuple(_cast(side, {c: k for c, k in casts.items() if side.types[c] != k}) for side in sides)


def _cast(rows: Relation, kinds: Mapping[str, str]) -> Relation:
    if not kinds:
        return rows
    items = (
        Named(c, expression(f"CAST({quoted(c)} AS {kinds[c]})") if c in kinds else column(c)) for c in rows.columns
    )
    return Relation(Project(rows.op, tuple(items)), {**rows.types, **kinds})


def _is_output(tree: exp.Expr, outputs: Mapping[str, exp.Expr]) -> bool:
    return isinstance(tree, exp.Column) and tree.name in outputs


def _check_groupable(result: Relation) -> None:
    for name in result.columns:
        if not groupable(result.types.get(name, "")):
            raise NotIncremental(f"column {name} holds a map, and Spark cannot compare maps")


def _number(clause: exp.Expr) -> int:
    value = clause.expression
    if not isinstance(value, exp.Literal) or not value.name.isdigit():
        raise NotIncremental("LIMIT and OFFSET by anything but a number are only known in batch")
    return int(value.name)
