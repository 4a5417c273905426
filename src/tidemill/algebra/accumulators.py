"""How aggregates are kept: as accumulators that can be added to, or recomputed for a group.

*Exact sums* (of integers and decimals) can be taken back as well as added: what a deletion subtracts is what the
insertion added. Extremes and sums of floats can only take more rows in: a float that is taken back need not leave
what was there before. Any other aggregate is its own accumulator and is recomputed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tidemill.algebra.expression import Expression, expression, quoted
from tidemill.algebra.operators import Fold
from tidemill.model.change import COUNT

ROWS = "_rows"
"""The accumulator that every group has: how many rows it is made of."""

_INTEGRAL = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_FLOAT = ("FLOAT", "DOUBLE")
_DECIMAL = re.compile(r"DECIMAL\((\d+), (\d+)\)")


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One column of an aggregate's state."""

    fold: Fold
    weighted: Fold | None  # the same of signed rows, each as often as its `_count` says; None if that has no meaning
    combine: str | None
    """Of an old value and one of added rows, a template over {old}, {new}, and whether the group {was} there.

    None: it is recomputed.
    """
    exact: bool = False

    @property
    def name(self) -> str:
        return self.fold.name

    def combined(self, *, old: str, new: str, was: str) -> Expression:
        assert self.combine is not None
        return expression(self.combine.format(old=old, new=new, was=was))


@dataclass(frozen=True, slots=True)
class Kept:
    """An aggregate as it is kept: its accumulators, and its value as a template over their names in braces."""

    fold: Fold
    accumulators: tuple[Accumulator, ...]
    template: str

    def value(self, prefix: str) -> Expression:
        names = {a.name: quoted(prefix + a.name) for a in self.accumulators}
        return expression(re.sub(r"\{(\w+)\}", lambda m: names[f"{self.fold.name}_{m[1]}"], self.template))


_ADD = "COALESCE({old}, 0) + COALESCE({new}, 0)"

_SCALE_KEPT = 6
"""Digits behind the point that Spark keeps when it makes a result fit into its 38 digits."""


def rows_kept(name: str = ROWS) -> Accumulator:
    """How many rows there are."""
    return Accumulator(Fold(name, "count"), Fold(name, "sum", (expression(COUNT),)), _ADD, exact=True)


def kept(fold: Fold) -> Kept:
    """How this aggregate is kept."""
    rule = _RULES.get(fold.function)
    found = rule(fold) if rule is not None else None
    return found or _holistic(fold)


def _holistic(fold: Fold) -> Kept:
    whole = Fold(f"{fold.name}_v", fold.function, fold.arguments, fold.type, fold.text)
    return Kept(fold, (Accumulator(whole, None, None),), "{v}")


def _sum_of(name: str, value: str, weighted: str, *, exact: bool, cast: str = "", combine: str = _ADD) -> Accumulator:
    plain = Fold(name, "sum", (expression(value),), cast=cast)
    signed = Fold(name, "sum", (expression(weighted),), cast=cast)
    return Accumulator(plain, signed, combine, exact=exact)


def _number(fold: Fold) -> Accumulator:
    """How many rows have a value."""
    return _number_where(fold, " AND ".join(f"({a}) IS NOT NULL" for a in fold.arguments))


def _number_where(fold: Fold, condition: str) -> Accumulator:
    each, weighted = (f"CASE WHEN {condition} THEN {n} ELSE 0L END" for n in ("1L", COUNT))
    return _sum_of(f"{fold.name}_n", each, weighted, exact=True)


def _count(fold: Fold) -> Kept:
    number = _number(fold) if fold.arguments else rows_kept(f"{fold.name}_n")
    return Kept(fold, (number,), "{n}")


def _count_if(fold: Fold) -> Kept:
    (there,) = fold.arguments
    number = _sum_of(
        f"{fold.name}_n",
        f"CASE WHEN {there} THEN 1L ELSE 0L END",
        f"CASE WHEN {there} THEN {COUNT} ELSE 0L END",
        exact=True,
    )
    return Kept(fold, (number,), "{n}")


def _total(fold: Fold) -> tuple[Accumulator, str] | None:
    """The accumulator of a sum, and the type that Spark gives the sum; None if the type is not known."""
    value, name = fold.arguments[0], f"{fold.name}_s"
    if fold.type in _INTEGRAL:
        wide = f"CAST({value} AS BIGINT)"
        return _sum_of(name, f"COALESCE({wide}, 0L)", f"COALESCE({wide} * {COUNT}, 0L)", exact=True), "BIGINT"
    if fold.type in _FLOAT:
        wide = f"CAST({value} AS DOUBLE)"
        return _sum_of(name, wide, f"{wide} * {COUNT}", exact=False), "DOUBLE"
    if found := _DECIMAL.fullmatch(fold.type):
        precision, scale = int(found[1]), int(found[2])
        plain, signed = f"COALESCE({value}, 0)", f"COALESCE(({value}) * CAST({COUNT} AS DECIMAL(10, 0)), 0)"
        result = f"DECIMAL({min(38, precision + 10)}, {scale})"
        if precision <= 27:  # so that a product with a count stays within 38 digits
            state = f"DECIMAL(36, {scale})"  # and two of these can be added without losing one
            return _sum_of(name, plain, signed, exact=True, cast=state), result
        if scale <= _SCALE_KEPT:  # no product and no sum loses a digit; one that has too many is an error
            state = f"DECIMAL(38, {scale})"
            return _sum_of(name, plain, signed, exact=True, cast=state, combine=_add_wide(state)), result
    return None


def _add_wide(state: str) -> str:
    """Addition of what may have become too large: where Spark makes that NULL instead of an error, it stays NULL."""
    return f"CASE WHEN {{was}} THEN {{old}} ELSE CAST(0 AS {state}) END + {{new}}"


def _sum(fold: Fold) -> Kept | None:
    total = _total(fold)
    if total is None:
        return None
    accumulator, result = total
    return Kept(fold, (accumulator, _number(fold)), f"CASE WHEN {{n}} > 0 THEN CAST({{s}} AS {result}) END")


def _avg(fold: Fold) -> Kept | None:
    total, mean = _total(fold), _mean(fold)
    if total is None or mean is None:
        return None
    return Kept(fold, (total[0], _number(fold)), f"CASE WHEN {{n}} > 0 THEN {mean} END")


def _mean(fold: Fold) -> str | None:
    """The template of a sum divided by a number; None if that cannot be rounded as Spark rounds an average.

    A quotient of decimals has so few digits that rounding it once more may go wrong. That of what is left over from
    whole numbers has enough.
    """
    found = _DECIMAL.fullmatch(fold.type)
    if found is None:
        return "CAST({s} AS DOUBLE) / {n}"
    precision, scale = int(found[1]), int(found[2])
    if precision > 33 or scale > 11:
        return None
    number, result = "CAST({n} AS DECIMAL(13, 0))", f"DECIMAL({precision + 4}, {scale + 4})"
    left_over = f"({{s}} % {number})"
    parts = (f"CAST({part} / {number} AS {result})" for part in (f"({{s}} - {left_over})", left_over))
    return f"CAST({' + '.join(parts)} AS {result})"


def _variance(root: bool, least: int) -> Callable[[Fold], Kept | None]:
    """From the sums of values and of their squares, exact for integers of 32 bits."""

    def rule(fold: Fold) -> Kept | None:
        if fold.type not in ("TINYINT", "SMALLINT", "INT"):
            return None
        value = fold.arguments[0]
        square = f"CAST(CAST({value} AS BIGINT) * CAST({value} AS BIGINT) AS DECIMAL(19, 0))"
        squares = _sum_of(
            f"{fold.name}_q",
            f"COALESCE({square}, 0)",
            f"COALESCE({square} * CAST({COUNT} AS DECIMAL(10, 0)), 0)",
            exact=True,
            cast="DECIMAL(36, 0)",
        )
        total = _total(fold)
        assert total is not None
        n, s, q = "CAST({n} AS DECIMAL(10, 0))", "CAST({s} AS DECIMAL(19, 0))", "CAST({q} AS DECIMAL(28, 0))"
        spread = f"CAST({n} * {q} - {s} * {s} AS DOUBLE) / (CAST({{n}} AS DOUBLE) * ({{n}} - {least}))"
        value_text = f"SQRT({spread})" if root else spread
        template = f"CASE WHEN {{n}} > {least} THEN {value_text} END"
        return Kept(fold, (total[0], squares, _number(fold)), template)

    return rule


def _extreme(function: str, combine: str) -> Callable[[Fold], Kept]:
    def rule(fold: Fold) -> Kept:
        value = Fold(f"{fold.name}_v", function, fold.arguments, fold.type)
        return Kept(fold, (Accumulator(value, value, combine),), "{v}")

    return rule


_LEAST, _GREATEST = "LEAST({old}, {new})", "GREATEST({old}, {new})"

_RULES: dict[str, Callable[[Fold], Kept | None]] = {
    "count": _count,
    "count_if": _count_if,
    "sum": _sum,
    "avg": _avg,
    "mean": _avg,
    "variance": _variance(root=False, least=1),
    "var_samp": _variance(root=False, least=1),
    "var_pop": _variance(root=False, least=0),
    "stddev": _variance(root=True, least=1),
    "std": _variance(root=True, least=1),
    "stddev_samp": _variance(root=True, least=1),
    "stddev_pop": _variance(root=True, least=0),
    "min": _extreme("min", _LEAST),
    "max": _extreme("max", _GREATEST),
    "bool_and": _extreme("bool_and", _LEAST),
    "every": _extreme("bool_and", _LEAST),
    "bool_or": _extreme("bool_or", _GREATEST),
    "any": _extreme("bool_or", _GREATEST),
    "some": _extreme("bool_or", _GREATEST),
}
