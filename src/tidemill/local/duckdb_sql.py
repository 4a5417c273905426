"""DuckDB's SQL, restricted to what it computes exactly as Spark does.

DuckDB reports values that do not fit their type, and integers divided by zero. Decimals have up to 38 digits, in
intermediate results too: a product with more is an error, and Spark computes it. Quotients of decimals are computed as
integers of 128 bits, because DuckDB would divide them as doubles.
"""

from collections.abc import Sequence

from pyspark.sql import types as T

from tidemill.algebra.typing import MAX_PRECISION
from tidemill.local.values import SqlValue, Unsupported, to_decimal_type

MACROS = (
    "CREATE MACRO divide_double(a, b) AS CASE WHEN b = 0 THEN error('division by zero')::DOUBLE ELSE a / b END",
    "CREATE MACRO divide_rounded(n, d) AS n // d + CASE WHEN 2 * abs(n % d) < abs(d) THEN 0"
    " WHEN (n < 0) = (d < 0) THEN 1 ELSE -1 END",
    "CREATE MACRO normalize_double(f) AS CASE WHEN isnan(f) THEN 'NaN'::DOUBLE ELSE f + 0.0::DOUBLE END",
    "CREATE MACRO normalize_float(f) AS CASE WHEN isnan(f) THEN 'NaN'::FLOAT ELSE f + 0.0::FLOAT END",
)
"""Functions that each database must define."""

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


def compute_decimals(sign: str, a: SqlValue, b: SqlValue, kind: T.DecimalType) -> str:
    """A sum, difference, product or remainder; operands get the larger scale, which DuckDB may reduce otherwise."""
    shapes = [to_decimal_type(value.type) for value in (a, b)]
    scale = max(s.scale for s in shapes)
    precision = min(MAX_PRECISION, max(s.precision - s.scale for s in shapes) + scale)
    aligned = (f"CAST({value.text} AS DECIMAL({precision}, {scale}))" for value in (a, b))
    left, right = (a.text, b.text) if sign == "*" else aligned
    return f"CAST({left} {sign} {right} AS {name_type(kind)})"


def divide_decimals(a: SqlValue, b: SqlValue, kind: T.DecimalType) -> str:
    wide = f"DECIMAL({MAX_PRECISION}"
    scales = [to_decimal_type(value.type).scale for value in (a, b)]
    integers = [f"CAST({v.text} * {10**s}::{wide}, 0) AS HUGEINT)" for v, s in zip((a, b), scales, strict=True)]
    shift = kind.scale - scales[0] + scales[1]
    numerator = f"{integers[0]} * {10 ** max(shift, 0)}::HUGEINT"
    denominator = f"{integers[1]} * {10 ** max(-shift, 0)}::HUGEINT"
    unit = f"CAST('1e-{kind.scale}' AS {wide}, {kind.scale}))" if kind.scale else "1::DECIMAL(1, 0)"
    quotient = f"CAST(divide_rounded({numerator}, {denominator}) AS {wide}, 0))"
    return f"CAST({quotient} * {unit} AS {name_type(kind)})"


def read_files(paths: Sequence[str]) -> str:
    """The rows of files. The statistics of floats in Parquet ignore NaN, so that filters must not rely on them."""
    return f"read_parquet([{', '.join(map(quote_text, paths))}], can_have_nan = TRUE)"


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    if "\0" in text:
        raise Unsupported("a NUL character")
    return "'" + text.replace("'", "''") + "'"
