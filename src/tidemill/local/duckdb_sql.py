"""DuckDB's SQL, restricted to what it computes exactly as Spark does.

DuckDB reports values that do not fit their type, and integers divided by zero. Decimals have up to 38 digits, in
intermediate results too: a product with more is an error, and Spark computes it. Quotients of decimals are computed as
integers of 128 bits, because DuckDB would divide them as doubles.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import types as T

from tidemill.algebra.operators import JoinKind
from tidemill.local import decimals
from tidemill.local.values import SqlValue, Unsupported

MACROS = (
    "CREATE MACRO divide_double(a, b) AS CASE WHEN b = 0 THEN error('division by zero')::DOUBLE ELSE a / b END",
    "CREATE MACRO divide_rounded(n, d) AS n // d + CASE WHEN 2 * abs(n % d) < abs(d) THEN 0"
    " WHEN (n < 0) = (d < 0) THEN 1 ELSE -1 END",
    "CREATE MACRO normalize_double(f) AS CASE WHEN isnan(f) THEN 'NaN'::DOUBLE ELSE f + 0.0::DOUBLE END",
    "CREATE MACRO normalize_float(f) AS CASE WHEN isnan(f) THEN 'NaN'::FLOAT ELSE f + 0.0::FLOAT END",
)
"""Functions that each database must define."""

_MAX_PRECISION = 38

_TYPES: dict[type[T.DataType], str] = {
    T.BooleanType: "BOOLEAN",
    T.ByteType: "TINYINT",
    T.ShortType: "SMALLINT",
    T.IntegerType: "INTEGER",
    T.LongType: "BIGINT",
    T.FloatType: "FLOAT",
    T.DoubleType: "DOUBLE",
    T.StringType: "VARCHAR",
    T.BinaryType: "BLOB",
    T.DateType: "DATE",
    T.TimestampType: "TIMESTAMPTZ",
    T.TimestampNTZType: "TIMESTAMP",
}


JOINS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "SEMI JOIN",
    JoinKind.ANTI: "ANTI JOIN",
}


def name_type(kind: T.DataType) -> str:
    match kind:
        case T.DecimalType():
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case T.ArrayType():
            return f"{name_type(kind.elementType)}[]"
        case T.MapType():
            return f"MAP({name_type(kind.keyType)}, {name_type(kind.valueType)})"
        case T.StructType():
            return f"STRUCT({', '.join(f'{quote_name(f.name)} {name_type(f.dataType)}' for f in kind)})"
    name = _TYPES.get(type(kind))
    if name is None:
        raise Unsupported(kind.simpleString())
    return name


def cast_decimal(value: SqlValue, kind: T.DecimalType) -> str:
    return f"CAST({value.text} AS {name_type(kind)})"


def compute_integers(sign: str, a: str, b: str, kind: T.DataType) -> str:
    return f"CAST({a} {sign} {b} AS {name_type(kind)})"


def negate(value: SqlValue) -> str:
    return f"CAST(-{value.text} AS {name_type(value.type)})"


def divide_doubles(a: str, b: str) -> str:
    return f"divide_double({a}, {b})"


def compute_decimals(sign: str, a: SqlValue, b: SqlValue, kind: T.DecimalType) -> str:
    left, right = (a.text, b.text) if sign == "*" else _align(a, b)
    return f"CAST({left} {sign} {right} AS {name_type(kind)})"


def compute_remainder(a: SqlValue, b: SqlValue, kind: T.DecimalType) -> str:
    left, right = _align(a, b)
    return f"CAST({left} % {right} AS {name_type(kind)})"


def divide_decimals(a: SqlValue, b: SqlValue, kind: T.DecimalType) -> str:
    shift = kind.scale - _shape(a).scale + _shape(b).scale
    numerator = f"{_to_unscaled(a)} * {10 ** max(shift, 0)}::HUGEINT"
    denominator = f"{_to_unscaled(b)} * {10 ** max(-shift, 0)}::HUGEINT"
    unit = f"CAST('1e-{kind.scale}' AS DECIMAL({_MAX_PRECISION}, {kind.scale}))" if kind.scale else "1::DECIMAL(1, 0)"
    return (
        f"CAST(CAST(divide_rounded({numerator}, {denominator}) AS DECIMAL({_MAX_PRECISION}, 0)) * {unit}"
        f" AS {name_type(kind)})"
    )


def normalize_float(value: SqlValue) -> str:
    return f"normalize_{value.type.typeName()}({value.text})"


def raise_error(message: str) -> str:
    return f"CAST(error({quote_text(message)}) AS BOOLEAN)"


def extract_year(text: str) -> str:
    return f"YEAR({text})"


def build_struct(names: Sequence[str], values: Sequence[str]) -> str:
    return "{" + ", ".join(f"{quote_text(n)}: {v}" for n, v in zip(names, values, strict=True)) + "}"


def extract_field(struct: str, name: str) -> str:
    return f"struct_extract({struct}, {quote_text(name)})"


def sum_integers(text: str) -> str:
    return f"CAST(SUM({text}) AS BIGINT)"


def sum_decimals(value: SqlValue, kind: T.DecimalType) -> str:
    return f"CAST(SUM({value.text}) AS {name_type(kind)})"


def take_any(text: str) -> str:
    return f"any_value({text})"


def take_last(text: str, order: str) -> str:
    return f"arg_max_null({text}, {order})"


def repeat_row(times: str) -> str:
    return f"unnest(range(greatest({times}, 0)))"


def read_files(paths: Sequence[str]) -> str:
    """The rows of files. The statistics of floats in Parquet ignore NaN, so that filters must not rely on them."""
    return f"read_parquet([{', '.join(map(quote_text, paths))}], can_have_nan = TRUE)"


def _align(a: SqlValue, b: SqlValue) -> tuple[str, str]:
    """Both with the larger scale: DuckDB would reduce the scale if there are too many digits."""
    shapes = _shape(a), _shape(b)
    scale = max(s.scale for s in shapes)
    precision = min(_MAX_PRECISION, max(s.precision - s.scale for s in shapes) + scale)
    left, right = (cast_decimal(value, T.DecimalType(precision, scale)) for value in (a, b))
    return left, right


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _shape(value: SqlValue) -> T.DecimalType:
    return decimals.to_decimal_type(value.type)


def _to_unscaled(value: SqlValue) -> str:
    return f"CAST({value.text} * {10 ** _shape(value).scale}::DECIMAL({_MAX_PRECISION}, 0) AS HUGEINT)"


def quote_text(text: str) -> str:
    if "\0" in text:
        raise Unsupported("a NUL character")
    return "'" + text.replace("'", "''") + "'"
