"""Translation: a query's clauses in the order of SQL's semantics, each an operator on the previous one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlglot import exp

from tidemill.algebra import operators as ops
from tidemill.algebra.dialect import parse_query, to_sql
from tidemill.algebra.expression import Expression, build_column, quote_name, to_expression
from tidemill.algebra.properties import find_stray_column
from tidemill.algebra.sql.grouping import find_aggregate_calls, group_by_sets, group_rows, list_grouping_sets
from tidemill.algebra.sql.reading import NotIncremental, read_query, split_conjuncts, to_operator_expression
from tidemill.algebra.sql.relation import (
    NameGenerator,
    TypedRelation,
    build_column_tree,
    find_source,
    join_all,
    join_relations,
    substitute_columns,
)
from tidemill.algebra.sql.subqueries import SubqueryJoins
from tidemill.algebra.sql.understood import find_function_name, find_internal_name
from tidemill.algebra.typing import find_common_type, infer_type, is_groupable


def translate_query(query: str, sources: Mapping[str, TypedRelation]) -> TypedRelation:
    """A query over these tables; raises `NotIncremental` with the reason if it has no incremental form."""
    sources = {name.lower(): source for name, source in sources.items()}
    tree = read_query(query, {name: source.columns for name, source in sources.items()})
    relation = QueryTranslator(sources).translate_tree(tree)
    names = _restore_spelling(query, relation.columns, sources)
    root = relation.rename_columns(dict(zip(relation.columns, names, strict=True)))
    stray = find_stray_column(root.op)
    if stray is not None:
        raise NotIncremental(f"its column {stray.rpartition('.')[2]} could not be resolved here")
    return root


def _restore_spelling(query: str, columns: tuple[str, ...], sources: Mapping[str, TypedRelation]) -> tuple[str, ...]:
    """The result's column names as the user wrote them; unnamed columns have their text as name, as in Spark."""
    spelling = {c.lower(): c for s in sources.values() for c in s.columns}
    first = parse_query(query)
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    items = first.expressions if isinstance(first, exp.Select) else []
    spelling |= {n.lower(): n for n in map(_find_item_name, items) if n}
    if not any(i.find(exp.Star) and not i.find(exp.Count) for i in items) and len(items) == len(columns):
        texts = (i.sql("spark", normalize_functions="lower").replace("(*)", "(1)") for i in items)
        named = zip(columns, items, texts, strict=True)
        columns = tuple(c if _find_item_name(i) else text for c, i, text in named)
    names = tuple(spelling.get(c, c) for c in columns)
    if len({n.lower() for n in names}) < len(names):
        raise NotIncremental("two of its columns have the same name")
    return names


def _find_item_name(item: exp.Expr) -> str:
    return str(item.alias or (item.name if isinstance(item, exp.Column | exp.Dot) else ""))


_QUALIFY = "_qualify"

RowsAndValues = tuple[TypedRelation, list[exp.Expr]]
RowsAndOutputs = tuple[TypedRelation, dict[str, exp.Expr]]
"""Rows, and expressions over their columns."""


class QueryTranslator:
    """Translates one query. `names` generates names for unnamed columns; `ctes` are the visible names of WITH."""

    def __init__(self, sources: Mapping[str, TypedRelation]) -> None:
        self.sources = sources
        self.names = NameGenerator()
        self.ctes: Mapping[str, TypedRelation] = {}
        self.subqueries = SubqueryJoins(self)

    def translate_tree(self, tree: exp.Expr) -> TypedRelation:
        """A query's rows, with unqualified column names."""
        with self.define_ctes(tree):
            match tree:
                case exp.Subquery():
                    return self._apply_limit(tree, self.translate_tree(tree.this))
                case exp.SetOperation():
                    return self._apply_limit(tree, self._translate_set_operation(tree))
                case exp.Select():
                    rows, unresolved = self.translate_rows(tree)
                    if unresolved:
                        raise NotIncremental(f"a column of {to_sql(unresolved[0])} could not be resolved here")
                    return self._translate_outputs(tree, rows)
        raise NotIncremental(f"{tree.key.upper()} is only supported in batch")

    @contextmanager
    def define_ctes(self, tree: exp.Expr) -> Iterator[None]:
        """The definitions of a query's WITH are visible while the query is translated."""
        outer, with_ = self.ctes, tree.args.get("with_")
        for cte in with_.expressions if with_ else []:
            self.ctes = {**self.ctes, cte.alias: self.translate_tree(cte.this)}
        yield
        self.ctes = outer

    def translate_rows(self, tree: exp.Select) -> RowsAndValues:
        """FROM and WHERE; also returns the conditions on columns of the outer query, if this is a sub-query."""
        where = tree.args.get("where")
        conditions = split_conjuncts(where.this if where else None)
        plain = [c for c in conditions if not c.find(exp.Query)]
        nested = [c for c in conditions if c.find(exp.Query)]
        rows, remaining = self._translate_from(tree, plain)
        outer = [c for c in remaining if not rows.has_columns(c)]
        rows = rows.filter_rows([c for c in remaining if rows.has_columns(c)])
        for condition in nested:
            rows = self.subqueries.filter_rows(rows, condition)
        return rows, outer

    def _translate_from(self, tree: exp.Select, conditions: list[exp.Expr]) -> RowsAndValues:
        from_ = tree.args.get("from_")
        if from_ is None:
            raise NotIncremental("a SELECT without FROM is only supported in batch")
        first, laterals = self._translate_table(from_.this), tree.args.get("laterals") or []
        joins = [(_find_join_kind(j), j.this, split_conjuncts(j.args.get("on"))) for j in tree.args.get("joins") or []]
        conjuncts = [c for *_, on in joins for c in on]
        if any(c.find(exp.Query) for c in conjuncts):
            raise NotIncremental("a sub-query in ON is only supported in batch")
        if all(kind is ops.JoinKind.INNER for kind, *_ in joins) and not laterals:
            tables = [first, *(self._translate_table(table) for _, table, _ in joins)]
            return join_all(tables, [*conjuncts, *conditions], self.names)
        for kind, table, on in joins:
            first = join_relations(first, self._translate_table(table), kind, on, self.names)
        for lateral in laterals:
            alias = lateral.args["alias"]
            outputs = [f"{alias.name}.{c.name.lower()}" for c in alias.args.get("columns") or []]
            first = self._explode_rows(first, lateral.this, outputs, bool(lateral.args.get("outer")))
        return first, conditions

    def _translate_table(self, node: exp.Expr) -> TypedRelation:
        if isinstance(node, exp.Subquery):
            relation = self.translate_tree(node.this)
        elif isinstance(node, exp.Table):
            relation = self.ctes.get(node.name) or find_source(".".join(p.name for p in node.parts), self.sources)
        else:
            raise NotIncremental(f"{node.key.upper()} in FROM is only supported in batch")
        prefix = node.alias_or_name
        return relation.rename_columns({c: f"{prefix}.{c.lower()}" for c in relation.columns})

    def _explode_rows(self, rows: TypedRelation, call: exp.Expr, outputs: list[str], outer: bool) -> TypedRelation:
        name = find_function_name(call)
        output_counts = {"explode": 1, "explode_outer": 1, "posexplode": 2, "posexplode_outer": 2}
        if name not in output_counts or len(outputs) != output_counts[name]:
            raise NotIncremental(f"{to_sql(call)} is only supported in batch")
        generator = to_operator_expression(call.copy())
        plain = Expression(generator.text.replace("_OUTER(", "(", 1), generator.columns)
        is_outer = outer or name.endswith("_outer")
        return TypedRelation(ops.Explode(rows.op, plain, tuple(outputs), is_outer), rows.types)

    def _translate_outputs(self, tree: exp.Select, rows: TypedRelation) -> TypedRelation:
        """GROUP BY, HAVING, windows, the list of columns, DISTINCT, ORDER BY with LIMIT."""
        items = {i.alias_or_name: i.unalias() if isinstance(i, exp.Alias) else i for i in tree.expressions}
        if len(items) < len(tree.expressions):
            raise NotIncremental("two of its columns have the same name")
        if name := find_internal_name(items):
            raise NotIncremental(f"a column cannot be called {name} in an incremental query")
        having, qualify, order = (tree.args.get(clause) for clause in ("having", "qualify", "order"))
        order_values = [o.this for o in order.expressions] if order and tree.args.get("limit") is not None else []
        if qualify:
            items[_QUALIFY] = qualify.this
        expressions = [*items.values(), *([having.this] if having else []), *order_values]
        if tree.args.get("group") or having or find_aggregate_calls(expressions):
            rows, expressions = self._translate_groups(tree, rows, expressions)
        outputs, values = dict(zip(items, expressions, strict=False)), expressions[len(items) :]
        if having:
            for condition in split_conjuncts(values.pop(0)):
                rows = self.subqueries.filter_rows(rows, condition)
        for name, value in outputs.items():
            if value.find(exp.Query):
                rows, outputs[name] = self.subqueries.add_values(rows, value)
        rows, outputs = self._translate_windows(rows, outputs)
        if qualify:
            rows = rows.filter_rows(split_conjuncts(outputs.pop(_QUALIFY)))
        rows, outputs = self._translate_generators(rows, outputs)
        unselected = (v for v in values if not (isinstance(v, exp.Column) and v.name in outputs))
        hidden = {self.names.generate_name("order"): v for v in unselected}
        result = _project_outputs(rows, {**outputs, **hidden})
        if tree.args.get("distinct") and hidden:
            raise NotIncremental("DISTINCT with an order by a column that is not selected is only supported in batch")
        if tree.args.get("distinct"):
            _check_groupable(result)
            result = TypedRelation(ops.select_distinct(result.op), result.types)
        return self._apply_limit(tree, result, list(hidden))

    def _translate_groups(self, tree: exp.Select, rows: TypedRelation, expressions: list[exp.Expr]) -> RowsAndValues:
        calls = find_aggregate_calls(expressions)
        grouping = {t: c for t, c in calls.items() if find_function_name(c) in ("grouping", "grouping_id")}
        sets = list_grouping_sets(tree.args.get("group"))
        keys = {to_sql(k): k for grouping_set in sets for k in grouping_set}
        bare = {t: k.name for t, k in keys.items() if isinstance(k, exp.Column)}
        key_names = {t: bare.get(t) or self.names.generate_name("key") for t in keys}
        plain = {t: c for t, c in calls.items() if t not in grouping}
        if len(sets) == 1:
            grouped, columns = group_rows(rows, {key_names[t]: k for t, k in keys.items()}, plain, self.names)
            columns |= {t: key_names[t] for t in keys}
        else:
            grouped, columns = group_by_sets(rows, sets, plain, grouping, self.names)
        return grouped, [substitute_columns(s, columns) for s in expressions]

    def _translate_windows(self, rows: TypedRelation, outputs: dict[str, exp.Expr]) -> RowsAndOutputs:
        windows = {to_sql(w): w for v in outputs.values() for w in v.find_all(exp.Window)}
        by_partition: dict[tuple[str, ...], dict[str, Expression | str]] = {}
        columns: dict[str, str] = {}
        for text, window in windows.items():
            rows, partition, bare = self._add_partition(rows, window)
            columns[text] = self.names.generate_name("win")
            by_partition.setdefault(partition, {})[columns[text]] = to_operator_expression(bare)
        op = rows.op
        for partition, values in by_partition.items():
            op = ops.WindowFunction(op, partition, ops.name_values(values))
        return TypedRelation(op, rows.types), {n: substitute_columns(v, columns) for n, v in outputs.items()}

    def _add_partition(
        self, rows: TypedRelation, window: exp.Window
    ) -> tuple[TypedRelation, tuple[str, ...], exp.Expr]:
        computed: dict[str, exp.Expr] = {}
        names: list[str] = []
        for key in window.args.get("partition_by") or []:
            name = key.name if isinstance(key, exp.Column) else self.names.generate_name("part")
            if not isinstance(key, exp.Column):
                computed[name] = key
            if not is_groupable(infer_type(key, rows.types)):
                raise NotIncremental(f"{to_sql(key)} holds a map, and Spark cannot partition by maps")
            names.append(name)
        bare = window.copy()
        bare.set("partition_by", [build_column_tree(n) for n in names])
        return rows.add_columns(computed), tuple(dict.fromkeys(names)), bare

    def _translate_generators(self, rows: TypedRelation, outputs: dict[str, exp.Expr]) -> RowsAndOutputs:
        """explode() in the select list."""
        for name, value in list(outputs.items()):
            call = value.find(exp.Explode)
            if call is None:
                continue
            if call is not value or find_function_name(call).startswith("pos"):
                raise NotIncremental(f"{to_sql(value)} is only supported in batch")
            output = self.names.generate_name("item")
            rows = self._explode_rows(rows, call, [output], outer=False)
            outputs[name] = build_column_tree(output)
        return rows, outputs

    def _translate_set_operation(self, tree: exp.SetOperation) -> TypedRelation:
        left, right = self.translate_tree(tree.left), self.translate_tree(tree.right)
        if len(left.columns) != len(right.columns):
            raise NotIncremental("the sides of a set operation have different numbers of columns")
        right = right.rename_columns(dict(zip(right.columns, left.columns, strict=True)))
        left, right = _cast_to_common_type(left, right)
        types = {c: left.types.get(c, "") if left.types.get(c) == right.types.get(c) else "" for c in left.columns}
        distinct = bool(tree.args.get("distinct"))
        if isinstance(tree, exp.Union) and not distinct:
            return TypedRelation(ops.Union((left.op, right.op)), types)
        if isinstance(tree, exp.Union):
            result = TypedRelation(ops.select_distinct(ops.Union((left.op, right.op))), types)
        else:
            keep_common = isinstance(tree, exp.Intersect)
            result = TypedRelation(self._match_sides(left, right, keep_common=keep_common, distinct=distinct), types)
        _check_groupable(result)
        return result

    def _match_sides(
        self, left: TypedRelation, right: TypedRelation, *, keep_common: bool, distinct: bool
    ) -> ops.Operator:
        """INTERSECT and EXCEPT: a row's numbers of occurrences on each side decide how often it is in the result."""
        counts = left_count, right_count = self.names.generate_name("left"), self.names.generate_name("right")
        sums = tuple(ops.AggregateCall(n, "sum", (build_column(n),), "INT") for n in counts)
        counted = ops.Aggregation(ops.tag_sides(left.op, right.op, counts), left.columns, sums)
        if keep_common:
            condition, times = f"{left_count} > 0 AND {right_count} > 0", f"LEAST({left_count}, {right_count})"
        elif distinct:
            condition, times = f"{left_count} > 0 AND {right_count} = 0", ""
        else:
            condition, times = f"{left_count} > {right_count}", f"{left_count} - {right_count}"
        rows: ops.Operator = ops.Filter(counted, to_expression(condition))
        if not distinct:
            rows = ops.repeat_rows(rows, times, self.names.generate_name("time"))
        return ops.select_columns(rows, left.columns)

    def _apply_limit(self, tree: exp.Expr, result: TypedRelation, hidden: Sequence[str] = ()) -> TypedRelation:
        """LIMIT in an order, by columns of the result or by `hidden` ones; an order alone has no effect on a bag."""
        limit, offset, order = (tree.args.get(a) for a in ("limit", "offset", "order"))
        if limit is None and offset is None:
            return result
        if limit is None or order is None:
            raise NotIncremental("LIMIT without ORDER BY, or OFFSET alone, may give any rows")
        hidden_names = list(hidden)
        keys = []
        for item in order.expressions:
            value = item.this
            is_output = isinstance(value, exp.Column) and value.name in result.columns
            name = value.name if is_output else (hidden_names.pop(0) if hidden_names else None)
            if name is None:
                raise NotIncremental(f"the order {to_sql(item)} is only supported in batch")
            ordered = item.copy()
            ordered.set("this", build_column_tree(name))
            keys.append(to_operator_expression(ordered))
        op = ops.TopN(result.op, tuple(keys), _parse_number(limit), _parse_number(offset) if offset else 0)
        visible = tuple(c for c in result.columns if c not in hidden)
        return TypedRelation(ops.select_columns(op, visible), result.types)


def _find_join_kind(node: exp.Join) -> ops.JoinKind:
    side, kind = (node.side or "").upper(), (node.kind or "").upper()
    if kind in ("SEMI", "ANTI"):
        return ops.JoinKind(kind.lower())
    if node.args.get("using") or kind not in ("", "INNER", "CROSS", "OUTER"):
        raise NotIncremental(f"{to_sql(node)} is only supported in batch")
    return ops.JoinKind(side.lower()) if side else ops.JoinKind.INNER


def _project_outputs(rows: TypedRelation, outputs: Mapping[str, exp.Expr]) -> TypedRelation:
    items = ops.name_values({n: to_operator_expression(v.copy()) for n, v in outputs.items()})
    return TypedRelation(ops.Projection(rows.op, items), {n: infer_type(v, rows.types) for n, v in outputs.items()})


def _cast_to_common_type(*sides: TypedRelation) -> tuple[TypedRelation, ...]:
    """The sides of a set operation with their numbers cast to the type that Spark chooses for both."""
    kinds = {c: {side.types.get(c, "") for side in sides} for c in sides[0].columns}
    wider = {c: find_common_type(k) for c, k in kinds.items() if len(k) > 1 and "" not in k}
    cast = []
    for side in sides:
        casts = {c: kind for c, kind in wider.items() if kind and side.types[c] != kind}
        values = {c: f"CAST({quote_name(c)} AS {kind})" for c, kind in casts.items()}
        cast.append(TypedRelation(ops.add_columns(side.op, values), {**side.types, **casts}) if casts else side)
    return tuple(cast)


def _check_groupable(result: TypedRelation) -> None:
    for name in result.columns:
        if not is_groupable(result.types.get(name, "")):
            raise NotIncremental(f"column {name} holds a map, and Spark cannot compare maps")


def _parse_number(clause: exp.Expr) -> int:
    value = clause.expression
    if not isinstance(value, exp.Literal) or not value.name.isdigit():
        raise NotIncremental("LIMIT and OFFSET with other expressions than a number are only supported in batch")
    return int(value.name)
