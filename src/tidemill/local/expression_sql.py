"""Translation of expressions to an engine's SQL, with Spark's types.

Each node is translated by its own rule, with the types of its operands known; a node without a rule is unsupported, and
Spark computes it. Results are cast to the type that Spark gives them, so that a value that does not fit is an error of
the engine: Spark then computes it too, so that errors have Spark's messages.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import reduce

from pyspark.sql import types as T
from sqlglot import exp

from tidemill.algebra.dialect import parse_expression
from tidemill.algebra.expression import Expression
from tidemill.algebra.typing import infer_type, parse_decimal
from tidemill.local import duckdb_sql
from tidemill.local.values import (
    INTEGERS,
    NUMBERS,
    SqlValue,
    Unsupported,
    find_common_type,
    infer_decimal_type,
    require_comparable,
    require_type,
    to_decimal_type,
)

_CASTS = {
    exp.DType.INT: T.IntegerType(),
    exp.DType.BIGINT: T.LongType(),
    exp.DType.BOOLEAN: T.BooleanType(),
    exp.DType.DOUBLE: T.DoubleType(),
    exp.DType.DATE: T.DateType(),
    exp.DType.TEXT: T.StringType(),
}
_SIGNS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class ExpressionTranslator:
    """Translates expressions over these columns."""

    def __init__(self, columns: Mapping[str, SqlValue]) -> None:
        self._columns = columns

    def translate(self, expression: Expression) -> SqlValue:
        if "\\" in expression.text:
            raise Unsupported("a backslash, whose meaning depends on a setting")
        return self.translate_tree(parse_expression(expression.text))

    def translate_condition(self, expression: Expression) -> str:
        return self._to_boolean(self.translate(expression))

    def translate_tree(self, tree: exp.Expr) -> SqlValue:
        match tree:
            case exp.Paren():
                return self.translate_tree(tree.this)
            case exp.Column():
                return self._translate_column(tree)
            case exp.Dot(expression=exp.Identifier(name=field)):
                return self._extract_field(self.translate_tree(tree.this), field)
            case exp.Null():
                return SqlValue("NULL", T.NullType())
            case exp.Boolean():
                return SqlValue("TRUE" if tree.this else "FALSE", T.BooleanType())
            case exp.Literal() | exp.Neg(this=exp.Literal()):
                return self._translate_literal(tree)
            case exp.Cast(this=exp.Literal(is_string=True, name=day)) if tree.to.this is exp.DType.DATE:
                return SqlValue(f"CAST('{_check_day(day)}' AS DATE)", T.DateType())
            case exp.Cast(this=exp.Anonymous(name="RAISE_ERROR", expressions=[exp.Literal(is_string=True)] as texts)):
                failure = f"CAST(error({duckdb_sql.quote_text(texts[0].name)}) AS BOOLEAN)"
                return self.cast_value(SqlValue(failure, T.BooleanType()), tree.to)
            case exp.Cast():  # TRY_CAST is a subclass
                return self.cast_value(self.translate_tree(tree.this), tree.to)
            case exp.Neg():
                value = require_type(self.translate_tree(tree.this), *NUMBERS)
                return self._cast(f"-{value.text}", value.type)
            case exp.Is(expression=exp.Null()):
                return SqlValue(f"({self.translate_tree(tree.this).text} IS NULL)", T.BooleanType())
            case exp.Between(args={"low": low, "high": high}) if not tree.args.get("symmetric"):
                value, bounds = self.translate_tree(tree.this), {">=": low, "<=": high}.items()
                sides = [self._compare(sign, value, self.translate_tree(bound)) for sign, bound in bounds]
                return self._join_logic("AND", sides)
            case exp.In(expressions=[_, *_] as options):
                return self._find_member([self.translate_tree(e) for e in (tree.this, *options)])
            case exp.Coalesce():
                kind, values = self.widen([self.translate_tree(e) for e in (tree.this, *tree.expressions)])
                return SqlValue(f"COALESCE({', '.join(values)})", kind)
            case exp.If():
                return self._translate_case([tree], tree.args.get("false"))
            case exp.Case(this=None):
                return self._translate_case(tree.args["ifs"], tree.args.get("default"))
            case exp.Anonymous(name="STRUCT"):
                return self._translate_struct(tree.expressions)
            case exp.Like(expression=exp.Literal(is_string=True, name=pattern)):
                word = "NOT LIKE" if tree.args.get("negate") else "LIKE"
                text = require_type(self.translate_tree(tree.this), T.StringType()).text
                return SqlValue(f"({text} {word} {duckdb_sql.quote_text(pattern)})", T.BooleanType())
            case exp.Substring(args={"start": exp.Literal(is_int=True), "length": exp.Literal(is_int=True)}):
                return self._translate_substring(tree)
            case exp.Extract(this=exp.Var(name="YEAR")):
                value = require_type(self.translate_tree(tree.expression), T.DateType())
                return self._cast(f"YEAR({value.text})", T.IntegerType())
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
                return self._translate_arithmetic(tree)
            case exp.And() | exp.Or():
                sides = [self.translate_tree(tree.this), self.translate_tree(tree.expression)]
                return self._join_logic("AND" if isinstance(tree, exp.And) else "OR", sides)
            case exp.Not():
                return SqlValue(f"(NOT {self._to_boolean(self.translate_tree(tree.this))})", T.BooleanType())
        if type(tree) not in _COMPARISONS:
            raise Unsupported(type(tree).__name__)
        sign = _COMPARISONS[type(tree)]
        return self._compare(sign, self.translate_tree(tree.this), self.translate_tree(tree.expression))

    def cast_value(self, value: SqlValue, target: exp.DataType) -> SqlValue:
        """A cast by the user or by derivation; only those whose results are the same in both."""
        if target.this is exp.DType.DECIMAL:
            kind = T.DecimalType(*(int(p.name) for p in target.expressions))
            if value.type != T.NullType():
                to_decimal_type(value.type)
            return self.cast_to(value, kind)
        plain = _CASTS.get(target.this)
        if plain is None or value.type not in (plain, T.NullType(), *(INTEGERS if plain in NUMBERS else ())):
            raise Unsupported(f"a cast of {value.type.simpleString()}")
        return self.cast_to(value, plain)

    def cast_to(self, value: SqlValue, kind: T.DataType) -> SqlValue:
        if value.type == kind:
            return value
        if value.type == T.NullType():
            return self._cast("NULL", kind)
        return self._cast(value.text, kind)

    def widen(self, values: Sequence[SqlValue]) -> tuple[T.DataType, list[str]]:
        """The common type of the values, and the values in it."""
        kind = find_common_type(v.type for v in values)
        return kind, [self.cast_to(v, kind).text for v in values]

    def _cast(self, text: str, kind: T.DataType) -> SqlValue:
        return SqlValue(f"CAST({text} AS {duckdb_sql.name_type(kind)})", kind)

    def _translate_column(self, tree: exp.Column) -> SqlValue:
        path = [part.name for part in tree.parts]
        if path[0] not in self._columns:
            raise Unsupported(f"no column {path[0]}")
        return reduce(self._extract_field, path[1:], self._columns[path[0]])

    def _extract_field(self, struct: SqlValue, name: str) -> SqlValue:
        if not isinstance(struct.type, T.StructType) or name not in struct.type.names:
            raise Unsupported(f"no field {name}")
        return SqlValue(f"struct_extract({struct.text}, {duckdb_sql.quote_text(name)})", struct.type[name].dataType)

    def _translate_literal(self, tree: exp.Expr) -> SqlValue:
        """A literal, in the type that Spark gives it."""
        match tree:
            case exp.Literal(is_string=True):
                return SqlValue(duckdb_sql.quote_text(tree.name), T.StringType())
            case exp.Literal(is_int=True) | exp.Neg(this=exp.Literal(is_int=True)):
                number = int(tree.name) if isinstance(tree, exp.Literal) else -int(tree.this.name)
                if -(1 << 63) < number < 1 << 63:
                    return self._cast(str(number), T.IntegerType() if -(1 << 31) < number < 1 << 31 else T.LongType())
            case exp.Literal() if shape := parse_decimal(infer_type(tree, {})):
                return self._cast(f"'{tree.name}'", T.DecimalType(*shape))
        raise Unsupported(str(tree))

    def _translate_case(self, ifs: Sequence[exp.Expr], default: exp.Expr | None) -> SqlValue:
        branches = [self.translate_tree(e) for e in (*(i.args["true"] for i in ifs), default or exp.Null())]
        kind, values = self.widen(branches)
        conditions = (self._to_boolean(self.translate_tree(i.this)) for i in ifs)
        whens = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(conditions, values[:-1], strict=True))
        return SqlValue(f"(CASE {whens} ELSE {values[-1]} END)", kind)

    def _translate_struct(self, fields: Sequence[exp.Expr]) -> SqlValue:
        if not all(isinstance(field, exp.Column) and len(field.parts) == 1 for field in fields):
            raise Unsupported("a struct with unnamed fields")
        values = {field.name: self.translate_tree(field) for field in fields}
        kind = T.StructType([T.StructField(n, v.type) for n, v in values.items()])
        texts = ", ".join(f"{duckdb_sql.quote_text(n)}: {v.text}" for n, v in values.items())
        return SqlValue(f"{{{texts}}}", kind)

    def _translate_substring(self, tree: exp.Substring) -> SqlValue:
        text = require_type(self.translate_tree(tree.this), T.StringType()).text
        start, length = int(tree.args["start"].name), int(tree.args["length"].name)
        if not start:
            raise Unsupported("a substring from position 0")
        return SqlValue(f"SUBSTRING({text}, {start}, {length})", T.StringType())

    def _translate_arithmetic(self, tree: exp.Binary) -> SqlValue:
        trees = tree.this, tree.expression
        a, b = (self.translate_tree(side) for side in trees)
        if isinstance(a.type, T.DecimalType) or isinstance(b.type, T.DecimalType):
            return self._compute_decimals(_SIGNS[type(tree)], *map(self._to_decimal, trees, (a, b)))
        if isinstance(tree, exp.Div):
            double = T.DoubleType()
            sides = (self.cast_to(require_type(v, double, T.NullType(), *INTEGERS), double).text for v in (a, b))
            return SqlValue(f"divide_double({', '.join(sides)})", double)
        kind, (left, right) = self.widen([a, b])
        if kind in INTEGERS:
            return self._cast(f"{left} {_SIGNS[type(tree)]} {right}", kind)
        if kind != T.DoubleType() or isinstance(tree, exp.Mod):
            raise Unsupported(f"arithmetic of {kind.simpleString()}")
        return SqlValue(f"({left} {_SIGNS[type(tree)]} {right})", kind)

    def _compute_decimals(self, sign: str, a: SqlValue, b: SqlValue) -> SqlValue:
        kind = infer_decimal_type(sign, to_decimal_type(a.type), to_decimal_type(b.type))
        if sign == "/":
            return SqlValue(duckdb_sql.divide_decimals(a, b, kind), kind)
        return SqlValue(duckdb_sql.compute_decimals(sign, a, b, kind), kind)

    def _to_decimal(self, tree: exp.Expr, value: SqlValue) -> SqlValue:
        """An operand of decimal arithmetic. An integer literal counts by its digits only."""
        match tree.unnest():
            case exp.Literal(is_int=True, name=number) | exp.Neg(this=exp.Literal(is_int=True, name=number)):
                return self.cast_to(value, T.DecimalType(len(str(int(number))), 0))
            case exp.Cast(this=exp.Literal()):
                raise Unsupported("a cast literal")
        return self.cast_to(value, to_decimal_type(value.type))

    def _compare(self, sign: str, a: SqlValue, b: SqlValue) -> SqlValue:
        left, right = self._widen_comparable([a, b])
        return SqlValue(f"({left} {sign} {right})", T.BooleanType())

    def _find_member(self, values: Sequence[SqlValue]) -> SqlValue:
        """Whether the first value equals another, in the common type of all."""
        value, *options = self._widen_comparable(values)
        return SqlValue(f"({value} IN ({', '.join(options)}))", T.BooleanType())

    def _widen_comparable(self, values: Sequence[SqlValue]) -> list[str]:
        kind, texts = self.widen(values)
        if kind != T.NullType():
            require_comparable(SqlValue("", kind))
        return texts

    def _join_logic(self, word: str, sides: Sequence[SqlValue]) -> SqlValue:
        return SqlValue(f"({f' {word} '.join(map(self._to_boolean, sides))})", T.BooleanType())

    def _to_boolean(self, value: SqlValue) -> str:
        return self.cast_to(require_type(value, T.BooleanType(), T.NullType()), T.BooleanType()).text


def normalize_key(value: SqlValue) -> str:
    """The value such that values are equal in the engine exactly where Spark groups or joins them."""
    require_comparable(value)
    kind = value.type.typeName()
    return f"normalize_{kind}({value.text})" if kind in ("float", "double") else value.text


def _check_day(text: str) -> str:
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise Unsupported(text) from error
    raise Unsupported(text)
