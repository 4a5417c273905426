"""Translation of a tree of operators to one SQL statement.

Columns are named by their position: the engines ignore the case of names, Spark's columns may contain any character.
An operator that is used several times is a named query, which the engine computes once; all others are nested, so that
the engine's optimiser sees one query.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

from pyspark.sql.types import DecimalType, IntegerType, LongType, StructField, StructType
from sqlglot import exp

from tidemill.algebra import operators as ops
from tidemill.algebra.dialect import parse_expression, parse_query
from tidemill.algebra.expression import Expression, build_literal, expression_from_tree
from tidemill.algebra.typing import MAX_PRECISION
from tidemill.local import duckdb_sql
from tidemill.local.expression_sql import ExpressionTranslator, normalize_key
from tidemill.local.values import INTEGERS, SqlValue, Unsupported, require_comparable, require_type


@dataclass(frozen=True, slots=True)
class SqlRelation:
    """A query or a table name, and the types of its columns c0, c1 and so on."""

    sql: str
    struct: StructType

    def bind_columns(self, alias: str) -> dict[str, SqlValue]:
        return {f.name: SqlValue(f"{alias}.c{i}", f.dataType) for i, f in enumerate(self.struct)}


Leaf = Callable[[ops.Operator], SqlRelation | None]
"""The relation of an operator whose rows are available without computation."""


class OperatorTranslator:
    """Translates one tree of operators."""

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._unique: dict[tuple[object, ...], ops.Operator] = {}
        self._relations: dict[int, SqlRelation] = {}
        self._uses: Counter[int] = Counter()
        self._named: list[str] = []

    def translate(self, op: ops.Operator) -> SqlRelation:
        root = self._unify(op)
        self._count_uses(root)
        relation = self._build_relation(root)
        statement = relation.sql if relation.sql.startswith("SELECT") else f"SELECT * FROM {relation.sql}"
        return SqlRelation(f"WITH {', '.join(self._named)} {statement}" if self._named else statement, relation.struct)

    def _unify(self, op: ops.Operator) -> ops.Operator:
        """The operator with equal parts replaced by one object: identities are quicker than hashes of trees."""
        unified = ops.map_children(op, self._unify)
        children = {id(child) for child in ops.list_children(unified)}
        own = tuple(id(v) if id(v) in children else v for v in _list_values(unified))
        return self._unique.setdefault((type(unified), *own), unified)

    def _count_uses(self, op: ops.Operator) -> None:
        self._uses[id(op)] += 1
        if self._uses[id(op)] == 1:
            for child in ops.list_children(op):
                self._count_uses(child)

    def _read(self, op: ops.Operator, alias: str = "t") -> tuple[str, SqlRelation]:
        """The FROM item of an operator, and its relation."""
        relation = self._relations.get(id(op))
        if relation is None:
            relation = self._build_relation(op)
            if self._uses[id(op)] > 1 and relation.sql.startswith("SELECT"):
                name = f"q{len(self._named)}"
                self._named.append(f"{name} AS ({relation.sql})")
                relation = SqlRelation(name, relation.struct)
            self._relations[id(op)] = relation
        item = f"({relation.sql})" if relation.sql.startswith("SELECT") else relation.sql
        return f"{item} AS {alias}", relation

    def _bind(self, relation: SqlRelation) -> ExpressionTranslator:
        return ExpressionTranslator(relation.bind_columns("t"))

    def _build_relation(self, op: ops.Operator) -> SqlRelation:
        if not op.columns or len({*op.columns}) < len(op.columns):
            raise Unsupported("no columns, or two of one name")
        leaf = self._leaf(op)
        if leaf is not None:
            return leaf
        match op:
            case ops.Projection():
                source, rows = self._read(op.child)
                bound = self._bind(rows)
                return _select([(i.name, bound.translate(i.value)) for i in op.items], f" FROM {source}")
            case ops.Filter():
                source, rows = self._read(op.child)
                condition = self._bind(rows).translate_condition(op.condition)
                return SqlRelation(f"SELECT * FROM {source} WHERE {condition}", rows.struct)
            case ops.Union():
                return self._translate_union(op)
            case ops.Explode(outer=False):
                return self._translate_repetition(op)
            case ops.Aggregation():
                return self._translate_aggregation(op)
            case ops.Join():
                return self._translate_join(op)
            case ops.TopN():
                return self._translate_top(op)
            case ops.SingleRow():
                return _select([("_one", SqlValue("CAST(0 AS INTEGER)", IntegerType()))], "")
        raise Unsupported(type(op).__name__)

    def _translate_union(self, op: ops.Union) -> SqlRelation:
        parts = [self._read(child) for child in op.children]
        bound = self._bind(parts[0][1])
        columns = [rows.bind_columns("t") for _, rows in parts]
        widened = [bound.widen([values[name] for values in columns]) for name in op.columns]
        struct = StructType([StructField(n, kind) for n, (kind, _) in zip(op.columns, widened, strict=True)])
        selects = [
            f"SELECT {', '.join(f'{texts[number]} AS c{i}' for i, (_, texts) in enumerate(widened))} FROM {source}"
            for number, (source, _) in enumerate(parts)
        ]
        return SqlRelation(f"SELECT * FROM ({' UNION ALL '.join(selects)}) AS u", struct)

    def _translate_repetition(self, op: ops.Explode) -> SqlRelation:
        """Each row repeated: the only use of explode in derived operators."""
        source, rows = self._read(op.child)
        match op.outputs, parse_expression(op.generator.text).this:
            case [name], exp.Anonymous(name="ARRAY_REPEAT", expressions=[exp.Literal(name="0"), exp.Cast() as times]):
                repeats = self._bind(rows).translate(expression_from_tree(times.this.copy()))
            case _:
                raise Unsupported(op.generator.text)
        item = f"unnest(range(greatest({require_type(repeats, *INTEGERS).text}, 0)))"
        struct = StructType([*rows.struct.fields, StructField(name, IntegerType())])
        names = ", ".join(f"c{i}" for i in range(len(rows.struct)))
        repeated = f"SELECT {names}, {item} AS r FROM {source}"
        statement = f"SELECT {names}, CAST(0 AS INTEGER) AS c{len(rows.struct)} FROM ({repeated}) AS s"
        return SqlRelation(statement, struct)

    def _translate_aggregation(self, op: ops.Aggregation) -> SqlRelation:
        source, rows = self._read(op.child)
        bound, columns = self._bind(rows), rows.bind_columns("t")
        keys = [(k, SqlValue(normalize_key(columns[k]), columns[k].type)) for k in op.keys]
        calls = [(call.name, self._translate_call(call, bound)) for call in op.calls]
        return _select([*keys, *calls], f" FROM {source} GROUP BY {', '.join(key.text for _, key in keys)}")

    def _translate_call(self, call: ops.AggregateCall, bound: ExpressionTranslator) -> SqlValue:
        if call.text:
            raise Unsupported(call.function)
        value = self._translate_plain_call(call, bound)
        return bound.cast_value(value, exp.DataType.build(call.cast, dialect="spark")) if call.cast else value

    def _translate_plain_call(self, call: ops.AggregateCall, bound: ExpressionTranslator) -> SqlValue:
        arguments = [bound.translate(a) for a in call.arguments]
        if call.function == "count":
            condition = " AND ".join(f"{a.text} IS NOT NULL" for a in arguments)
            return SqlValue(f"COUNT(*) FILTER (WHERE {condition})" if arguments else "COUNT(*)", LongType())
        if not arguments:
            raise Unsupported(call.function)
        first, *others = arguments
        match call.function, others:
            case "sum", [] if first.type in INTEGERS:
                return SqlValue(f"CAST(SUM({first.text}) AS BIGINT)", LongType())
            case "sum", [] if isinstance(first.type, DecimalType):
                kind = DecimalType(min(MAX_PRECISION, first.type.precision + 10), first.type.scale)
                return SqlValue(f"CAST(SUM({first.text}) AS {duckdb_sql.name_type(kind)})", kind)
            case "min" | "max", []:
                return SqlValue(f"{call.function}({require_comparable(first).text})", first.type)
            case "any_value", [_] if call.arguments[1] == build_literal("TRUE"):  # of the values that are not NULL
                return SqlValue(f"any_value({first.text})", first.type)
            case "max_by", [order] if order.type in INTEGERS:
                return SqlValue(f"arg_max_null({first.text}, {order.text})", first.type)
        raise Unsupported(call.function)

    def _translate_join(self, op: ops.Join) -> SqlRelation:
        left_source, left = self._read(op.left, "l")
        right_source, right = self._read(op.right, "r")
        sides = left.bind_columns("l"), right.bind_columns("r")
        is_filter = op.kind in (ops.JoinKind.SEMI, ops.JoinKind.ANTI)
        if not is_filter and sides[0].keys() & sides[1].keys():
            raise Unsupported("two columns of one name")
        conditions = [self._equate_keys(sides[0][a], sides[1][b], null_safe=op.null_safe) for a, b in op.keys]
        if op.condition is not None:
            bound = ExpressionTranslator({**sides[1], **sides[0]})
            conditions.append(bound.translate_condition(op.condition))
        columns = [*sides[0].items(), *(() if is_filter else sides[1].items())]
        condition = " AND ".join(conditions) or "TRUE"
        return _select(columns, f" FROM {left_source} {op.kind.upper()} JOIN {right_source} ON {condition}")

    def _equate_keys(self, a: SqlValue, b: SqlValue, *, null_safe: bool) -> str:
        if a.type != b.type:
            raise Unsupported("keys of several types")
        sign = "IS NOT DISTINCT FROM" if null_safe else "="
        return f"({normalize_key(a)} {sign} {normalize_key(b)})"

    def _translate_top(self, op: ops.TopN) -> SqlRelation:
        """The first rows in an order; ties are broken arbitrarily."""
        source, rows = self._read(op.child)
        order = ", ".join(self._translate_order(item, self._bind(rows)) for item in op.order)
        return SqlRelation(f"SELECT * FROM {source} ORDER BY {order} LIMIT {op.limit} OFFSET {op.skip}", rows.struct)

    def _translate_order(self, order: Expression, bound: ExpressionTranslator) -> str:
        item = parse_query(f"SELECT 1 ORDER BY {order}").args["order"].expressions[0]
        value = require_comparable(bound.translate(expression_from_tree(item.this)))
        direction = "DESC" if item.args["desc"] else "ASC"
        return f"{value.text} {direction} NULLS {'FIRST' if item.args['nulls_first'] else 'LAST'}"


def _list_values(op: ops.Operator) -> Iterator[object]:
    """The values of an operator's fields that are compared; a union's children one by one."""
    for part in fields(op):
        value = getattr(op, part.name)
        if part.compare:
            yield from value if isinstance(op, ops.Union) else (value,)


def _select(columns: Sequence[tuple[str, SqlValue]], source: str) -> SqlRelation:
    items = ", ".join(f"{value.text} AS c{i}" for i, (_, value) in enumerate(columns))
    return SqlRelation(f"SELECT {items}{source}", StructType([StructField(name, v.type) for name, v in columns]))
