"""Types of expressions, as far as they decide whether sums are exact.

It implements Spark's rules for numbers, mainly decimals; the type of any other expression is unknown (""). An unknown
type only costs speed: the aggregate is then recomputed for touched groups instead of being added to.
"""

import re
from collections.abc import Mapping, Set

from sqlglot import exp

from tidemill.model.schema import Field

Types = Mapping[str, str]

_DECIMAL = re.compile(r"DECIMAL\((\d+), (\d+)\)")
INTEGERS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
"""Integers from narrow to wide, and the digits of the decimals that hold them."""
FLOATS = ("FLOAT", "DOUBLE")
MAX_PRECISION = 38
MIN_SCALE = 6
"""Digits behind the point that Spark preserves when it makes a result fit into its greatest precision."""

Shape = tuple[int, int]
"""The precision and the scale of a decimal."""


def infer_type(tree: exp.Expr, types: Types) -> str:
    """The type of an expression over columns of these types; "" if not known.

    >>> from tidemill.algebra.dialect import parse_expression
    >>> infer_type(parse_expression("price * (1 - discount)"), {"price": "DECIMAL(12, 2)", "discount": "DECIMAL(4, 2)"})
    'DECIMAL(18, 4)'
    >>> infer_type(parse_expression("a * b"), {"a": "DECIMAL(38, 4)", "b": "DECIMAL(12, 2)"})
    'DECIMAL(38, 6)'
    >>> infer_type(parse_expression("IF(b > 0, b, 0)"), {"b": "DECIMAL(5, 2)"})
    'DECIMAL(12, 2)'
    >>> [infer_type(parse_expression(f"f * {other}"), {"f": "FLOAT", "n": "INT"}) for other in "fn"]
    ['FLOAT', 'DOUBLE']
    """
    match tree:
        case exp.Column() if not tree.table:
            return types.get(tree.name, "")
        case exp.Literal() if not tree.is_string:
            return _infer_literal(tree.name)
        case exp.Paren() | exp.Neg() | exp.Alias():
            return infer_type(tree.this, types)
        case exp.Cast():
            text = tree.to.sql("spark")
            return "DECIMAL(10, 0)" if text == "DECIMAL" else str(text)
        case exp.Add() | exp.Sub() | exp.Mul():
            return _infer_arithmetic(tree, types)
        case exp.Case():
            branches = [b.args["true"] for b in tree.args["ifs"]]
            return _infer_common([*branches, tree.args.get("default")], types)
        case exp.If():
            return _infer_common([tree.args["true"], tree.args.get("false")], types)
        case exp.Coalesce():
            return _infer_common([tree.this, *tree.expressions], types)
    return ""


def _infer_literal(text: str) -> str:
    if text.isdigit():
        return "INT" if int(text) < 2**31 else ("BIGINT" if int(text) < 2**63 else "")
    if "e" in text.lower():
        return "DOUBLE"
    integer, _, fraction = text.partition(".")
    scale = len(fraction)
    return f"DECIMAL({max(len(integer.lstrip('0')) + scale, scale, 1)}, {scale})"


def _infer_common(branches: list[exp.Expr | None], types: Types) -> str:
    """The common type of branches, ignoring NULL."""
    return find_common_type({infer_type(b, types) for b in branches if b is not None and not isinstance(b, exp.Null)})


def find_common_type(kinds: Set[str]) -> str:
    """The numeric type to which Spark casts numbers of these types; "" if not known.

    >>> [find_common_type({"INT", other}) for other in ("DOUBLE", "DECIMAL(5, 2)", "STRING")]
    ['DOUBLE', 'DECIMAL(12, 2)', '']
    """
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds <= set(INTEGERS):
        return max(kinds, key=[*INTEGERS].index, default="")
    shapes = [shape for kind in kinds if (shape := _find_shape(kind)) is not None]
    if "DOUBLE" in kinds and len(shapes) + len(kinds & {*FLOATS}) == len(kinds):
        return "DOUBLE"
    if len(shapes) < len(kinds):
        return ""
    scale = max(s for _, s in shapes)
    precision = max(p - s for p, s in shapes) + scale
    return f"DECIMAL({precision}, {scale})" if precision <= 38 else ""


def _infer_arithmetic(tree: exp.Binary, types: Types) -> str:
    sides = tree.this, tree.expression
    kinds = [infer_type(side, types) for side in sides]
    if "" in kinds:
        return ""
    if any(k in FLOATS for k in kinds):
        return "FLOAT" if {*kinds} == {"FLOAT"} else "DOUBLE"
    if all(k in INTEGERS for k in kinds):
        return max(kinds, key=[*INTEGERS].index)
    shapes = [_find_literal_shape(side) or _find_shape(kind) for side, kind in zip(sides, kinds, strict=True)]
    if shapes[0] is None or shapes[1] is None:
        return ""
    (p1, s1), (p2, s2) = shapes[0], shapes[1]
    if isinstance(tree, exp.Mul):
        precision, scale = fit_shape(p1 + p2 + 1, s1 + s2)
    else:
        scale = max(s1, s2)
        precision, scale = fit_shape(max(p1 - s1, p2 - s2) + scale + 1, scale)
    return f"DECIMAL({precision}, {scale})"


def _find_literal_shape(tree: exp.Expr) -> Shape | None:
    """The shape of an integer literal: in arithmetic Spark counts only its digits."""
    number = tree.unnest()
    if isinstance(number, exp.Neg):
        number = number.this
    is_integer = isinstance(number, exp.Literal) and not number.is_string and number.name.isdigit()
    return (len(str(int(number.name))), 0) if is_integer else None


def parse_decimal(kind: str) -> Shape | None:
    decimal = _DECIMAL.fullmatch(kind)
    return (int(decimal[1]), int(decimal[2])) if decimal else None


def _find_shape(kind: str) -> Shape | None:
    """The shape of a decimal, or of the decimal that holds an integer."""
    return (INTEGERS[kind], 0) if kind in INTEGERS else parse_decimal(kind)


def fit_shape(precision: int, scale: int) -> Shape:
    """The shape of a result; if it has too many digits, the scale is reduced, but not below `MIN_SCALE`."""
    if precision <= MAX_PRECISION:
        return precision, scale
    return MAX_PRECISION, max(MAX_PRECISION - (precision - scale), min(scale, MIN_SCALE))


def is_groupable(kind: str) -> bool:
    return not kind or Field("x", kind).is_groupable
