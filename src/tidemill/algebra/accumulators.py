"""How aggregates are kept: as accumulators that can be added to, or recomputed for a group.

*Exact sums* (of integers and decimals) can be taken back as well as added: what a deletion subtracts is what the
insertion added. Extremes and sums of floats can only take more rows in: a float that is taken back need not leave
what was there before. Any other aggregate is its own accumulator and is recomputed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tidemill.algebra.expression import Expression, quote_name, to_expression
from tidemill.algebra.operators import AggregateCall
from tidemill.model.change import COUNT

ROWS = "_rows"
"""The accumulator that every group has: how many rows it is made of."""

_INTEGRAL = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_FLOAT = ("FLOAT", "DOUBLE")
_DECIMAL = re.compile(r"DECIMAL\((\d+), (\d+)\)")


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One column of an aggregate's state."""

    fold: AggregateCall
    weighted: (
        AggregateCall | None
    )  # the same of signed rows, each as often as its `_count` says; None if that has no meaning
    combine: str | None
    """Of an old value and one of added rows, a template over {old}, {new}, and whether the group {was} there.

    None: it is recomputed.
    """
    exact: bool = False

    @property
    def name(self) -> str:
        return self.fold.name

    def combine_values(self, *, old: str, new: str, was: str) -> Expression:
        assert self.combine is not None
        return to_expression(self.combine.format(old=old, new=new, was=was))


@dataclass(frozen=True, slots=True)
class IncrementalAggregate:
    """An aggregate as it is kept: its accumulators, and its value as a template over their names in braces."""

    fold: AggregateCall
    accumulators: tuple[Accumulator, ...]
    template: str

    def build_value(self, prefix: str) -> Expression:
        names = {a.name: quote_name(prefix + a.name) for a in self.accumulators}
        return to_expression(re.sub(r"\{(\w+)\}", lambda m: names[f"{self.fold.name}_{m[1]}"], self.template))


_ADD = "COALESCE({old}, 0) + COALESCE({new}, 0)"

_SCALE_KEPT = 6
"""Digits behind the point that Spark keeps when it makes a result fit into its 38 digits."""


def build_row_count(name: str = ROWS) -> Accumulator:
    """How many rows there are."""
    return Accumulator(
        AggregateCall(name, "count"), AggregateCall(name, "sum", (to_expression(COUNT),)), _ADD, exact=True
    )


def decompose_aggregate(fold: AggregateCall) -> IncrementalAggregate:
    """How this aggregate is kept."""
    rule = _RULES.get(fold.function)
    found = rule(fold) if rule is not None else None
    return found or _decompose_holistic(fold)


def _decompose_holistic(fold: AggregateCall) -> IncrementalAggregate:
    whole = AggregateCall(f"{fold.name}_v", fold.function, fold.arguments, fold.type, fold.text)
    return IncrementalAggregate(fold, (Accumulator(whole, None, None),), "{v}")


def _build_sum(
    name: str, value: str, weighted: str, *, exact: bool, cast: str = "", combine: str = _ADD
) -> Accumulator:
    plain = AggregateCall(name, "sum", (to_expression(value),), cast=cast)
    signed = AggregateCall(name, "sum", (to_expression(weighted),), cast=cast)
    return Accumulator(plain, signed, combine, exact=exact)


def _count_values(fold: AggregateCall) -> Accumulator:
    """How many rows have a value."""
    return _count_where(fold, " AND ".join(f"({a}) IS NOT NULL" for a in fold.arguments))


def _count_where(fold: AggregateCall, condition: str) -> Accumulator:
    each, weighted = (f"CASE WHEN {condition} THEN {n} ELSE 0L END" for n in ("1L", COUNT))
    return _build_sum(f"{fold.name}_n", each, weighted, exact=True)


def _decompose_count(fold: AggregateCall) -> IncrementalAggregate:
    number = _count_values(fold) if fold.arguments else build_row_count(f"{fold.name}_n")
    return IncrementalAggregate(fold, (number,), "{n}")


def _decompose_count_if(fold: AggregateCall) -> IncrementalAggregate:
    (there,) = fold.arguments
    number = _build_sum(
        f"{fold.name}_n",
        f"CASE WHEN {there} THEN 1L ELSE 0L END",
        f"CASE WHEN {there} THEN {COUNT} ELSE 0L END",
        exact=True,
    )
    return IncrementalAggregate(fold, (number,), "{n}")


def _build_total(fold: AggregateCall) -> tuple[Accumulator, str] | None:
    """The accumulator of a sum, and the type that Spark gives the sum; None if the type is not known."""
    value, name = fold.arguments[0], f"{fold.name}_s"
    if fold.type in _INTEGRAL:
        wide = f"CAST({value} AS BIGINT)"
        return _build_sum(name, f"COALESCE({wide}, 0L)", f"COALESCE({wide} * {COUNT}, 0L)", exact=True), "BIGINT"
    if fold.type in _FLOAT:
        wide = f"CAST({value} AS DOUBLE)"
        return _build_sum(name, wide, f"{wide} * {COUNT}", exact=False), "DOUBLE"
    if found := _DECIMAL.fullmatch(fold.type):
        precision, scale = int(found[1]), int(found[2])
        plain, signed = f"COALESCE({value}, 0)", f"COALESCE(({value}) * CAST({COUNT} AS DECIMAL(10, 0)), 0)"
        result = f"DECIMAL({min(38, precision + 10)}, {scale})"
        if precision <= 27:  # so that a product with a count stays within 38 digits
            state = f"DECIMAL(36, {scale})"  # and two of these can be added without losing one
            return _build_sum(name, plain, signed, exact=True, cast=state), result
        if scale <= _SCALE_KEPT:  # no product and no sum loses a digit; one that has too many is an error
            state = f"DECIMAL(38, {scale})"
            return _build_sum(name, plain, signed, exact=True, cast=state, combine=_add_wide(state)), result
    return None


def _add_wide(state: str) -> str:
    """Addition of what may have become too large: where Spark makes that NULL instead of an error, it stays NULL."""
    return f"CASE WHEN {{was}} THEN {{old}} ELSE CAST(0 AS {state}) END + {{new}}"


def _decompose_sum(fold: AggregateCall) -> IncrementalAggregate | None:
    total = _build_total(fold)
    if total is None:
        return None
    accumulator, result = total
    return IncrementalAggregate(
        fold, (accumulator, _count_values(fold)), f"CASE WHEN {{n}} > 0 THEN CAST({{s}} AS {result}) END"
    )


def _decompose_avg(fold: AggregateCall) -> IncrementalAggregate | None:
    total, mean = _build_total(fold), _format_mean(fold)
    if total is None or mean is None:
        return None
    return IncrementalAggregate(fold, (total[0], _count_values(fold)), f"CASE WHEN {{n}} > 0 THEN {mean} END")


def _format_mean(fold: AggregateCall) -> str | None:
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


def _build_variance_rule(root: bool, least: int) -> Callable[[AggregateCall], IncrementalAggregate | None]:
    """From the sums of values and of their squares, exact for integers of 32 bits."""

    def decompose_variance(fold: AggregateCall) -> IncrementalAggregate | None:
        if fold.type not in ("TINYINT", "SMALLINT", "INT"):
            return None
        value = fold.arguments[0]
        square = f"CAST(CAST({value} AS BIGINT) * CAST({value} AS BIGINT) AS DECIMAL(19, 0))"
        squares = _build_sum(
            f"{fold.name}_q",
            f"COALESCE({square}, 0)",
            f"COALESCE({square} * CAST({COUNT} AS DECIMAL(10, 0)), 0)",
            exact=True,
            cast="DECIMAL(36, 0)",
        )
        total = _build_total(fold)
        assert total is not None
        n, s, q = "CAST({n} AS DECIMAL(10, 0))", "CAST({s} AS DECIMAL(19, 0))", "CAST({q} AS DECIMAL(28, 0))"
        spread = f"CAST({n} * {q} - {s} * {s} AS DOUBLE) / (CAST({{n}} AS DOUBLE) * ({{n}} - {least}))"
        value_text = f"SQRT({spread})" if root else spread
        template = f"CASE WHEN {{n}} > {least} THEN {value_text} END"
        return IncrementalAggregate(fold, (total[0], squares, _count_values(fold)), template)

    return decompose_variance


def _build_extreme_rule(function: str, combine: str) -> Callable[[AggregateCall], IncrementalAggregate]:
    def decompose_extreme(fold: AggregateCall) -> IncrementalAggregate:
        value = AggregateCall(f"{fold.name}_v", function, fold.arguments, fold.type)
        return IncrementalAggregate(fold, (Accumulator(value, value, combine),), "{v}")

    return decompose_extreme


_LEAST, _GREATEST = "LEAST({old}, {new})", "GREATEST({old}, {new})"

_RULES: dict[str, Callable[[AggregateCall], IncrementalAggregate | None]] = {
    "count": _decompose_count,
    "count_if": _decompose_count_if,
    "sum": _decompose_sum,
    "avg": _decompose_avg,
    "mean": _decompose_avg,
    "variance": _build_variance_rule(root=False, least=1),
    "var_samp": _build_variance_rule(root=False, least=1),
    "var_pop": _build_variance_rule(root=False, least=0),
    "stddev": _build_variance_rule(root=True, least=1),
    "std": _build_variance_rule(root=True, least=1),
    "stddev_samp": _build_variance_rule(root=True, least=1),
    "stddev_pop": _build_variance_rule(root=True, least=0),
    "min": _build_extreme_rule("min", _LEAST),
    "max": _build_extreme_rule("max", _GREATEST),
    "bool_and": _build_extreme_rule("bool_and", _LEAST),
    "every": _build_extreme_rule("bool_and", _LEAST),
    "bool_or": _build_extreme_rule("bool_or", _GREATEST),
    "any": _build_extreme_rule("bool_or", _GREATEST),
    "some": _build_extreme_rule("bool_or", _GREATEST),
}
