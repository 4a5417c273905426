"""Aggregates as accumulators that can be added to, or that are recomputed for a group.

*Exact sums* (of integers and decimals) can be retracted as well as added: a deletion subtracts exactly what the
insertion added. Extremes and sums of floats can only take in more rows: subtracting a float need not restore the
previous sum. Any other aggregate is its own accumulator and is recomputed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tidemill.algebra.expression import Expression, quote_name, to_expression
from tidemill.algebra.operators import AggregateCall
from tidemill.algebra.typing import FLOATS, INTEGERS, MIN_SCALE, parse_decimal
from tidemill.model.change import COUNT

ROW_COUNT = "_rows"
"""The accumulator that every group has: its number of rows."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One column of an aggregate's state."""

    call: AggregateCall
    signed_call: AggregateCall | None  # the same over signed rows, each weighted by `_count`; None if that is undefined
    combine_template: str | None
    """The new value, as a template over {old}, {new} (of the added rows) and {was} (whether the group existed).

    None: it is recomputed.
    """
    is_exact: bool = False

    @property
    def name(self) -> str:
        return self.call.name

    def combine_values(self, old: str, new: str, existed: str) -> Expression:
        """The new value from the columns with the prefixes `old` and `new`."""
        assert self.combine_template is not None
        values = {"old": quote_name(old + self.name), "new": quote_name(new + self.name), "was": existed}
        return to_expression(self.combine_template.format_map(values))


@dataclass(frozen=True, slots=True)
class IncrementalAggregate:
    """An aggregate as its accumulators, and its value as a template over their names in braces."""

    call: AggregateCall
    accumulators: tuple[Accumulator, ...]
    template: str

    def build_value(self, prefix: str) -> Expression:
        names = {a.name: quote_name(prefix + a.name) for a in self.accumulators}
        return to_expression(re.sub(r"\{(\w+)\}", lambda m: names[f"{self.call.name}_{m[1]}"], self.template))


_ADD = "COALESCE({old}, 0) + COALESCE({new}, 0)"


def build_row_count(name: str = ROW_COUNT) -> Accumulator:
    signed = AggregateCall(name, "sum", (to_expression(COUNT),))
    return Accumulator(AggregateCall(name, "count"), signed, _ADD, is_exact=True)


def decompose_aggregate(call: AggregateCall) -> IncrementalAggregate:
    rule = _RULES.get(call.function)
    if rule is not None and (aggregate := rule(call)) is not None:
        return aggregate
    value = AggregateCall(f"{call.name}_v", call.function, call.arguments, call.type, call.text)
    return IncrementalAggregate(call, (Accumulator(value, None, None),), "{v}")


def _build_sum(
    name: str, value: str, weighted: str, *, exact: bool, cast: str = "", combine: str = _ADD
) -> Accumulator:
    plain, signed = (AggregateCall(name, "sum", (to_expression(v),), cast=cast) for v in (value, weighted))
    return Accumulator(plain, signed, combine, is_exact=exact)


def _count_values(call: AggregateCall) -> Accumulator:
    """Counts the rows whose arguments are not NULL."""
    return _count_where(call, " AND ".join(f"({a}) IS NOT NULL" for a in call.arguments))


def _count_where(call: AggregateCall, condition: str) -> Accumulator:
    plain, weighted = (f"CASE WHEN {condition} THEN {n} ELSE 0L END" for n in ("1L", COUNT))
    return _build_sum(f"{call.name}_n", plain, weighted, exact=True)


def _decompose_count(call: AggregateCall) -> IncrementalAggregate:
    number = _count_values(call) if call.arguments else build_row_count(f"{call.name}_n")
    return IncrementalAggregate(call, (number,), "{n}")


def _build_total(call: AggregateCall) -> tuple[Accumulator, str] | None:
    """The accumulator of a sum, and the type that Spark gives the sum; None if the type is not known."""
    value, name = call.arguments[0], f"{call.name}_s"
    if call.type in INTEGERS:
        wide = f"CAST({value} AS BIGINT)"
        return _build_sum(name, f"COALESCE({wide}, 0L)", f"COALESCE({wide} * {COUNT}, 0L)", exact=True), "BIGINT"
    if call.type in FLOATS:
        wide = f"CAST({value} AS DOUBLE)"
        return _build_sum(name, wide, f"{wide} * {COUNT}", exact=False), "DOUBLE"
    if decimal := parse_decimal(call.type):
        precision, scale = decimal
        plain, signed = f"COALESCE({value}, 0)", f"COALESCE(({value}) * CAST({COUNT} AS DECIMAL(10, 0)), 0)"
        result = f"DECIMAL({min(38, precision + 10)}, {scale})"
        if precision <= 27:  # a product with a count then stays within 38 digits
            state = f"DECIMAL(36, {scale})"  # two of these can be added without losing a digit
            return _build_sum(name, plain, signed, exact=True, cast=state), result
        if scale <= MIN_SCALE:  # no product or sum loses a digit; an overflow is an error
            state = f"DECIMAL(38, {scale})"
            # Where Spark returns NULL for an overflow instead of an error, the sum stays NULL.
            combine = f"CASE WHEN {{was}} THEN {{old}} ELSE CAST(0 AS {state}) END + {{new}}"
            return _build_sum(name, plain, signed, exact=True, cast=state, combine=combine), result
    return None


def _decompose_sum(call: AggregateCall) -> IncrementalAggregate | None:
    total = _build_total(call)
    if total is None:
        return None
    accumulator, result = total
    template = f"CASE WHEN {{n}} > 0 THEN CAST({{s}} AS {result}) END"
    return IncrementalAggregate(call, (accumulator, _count_values(call)), template)


def _decompose_avg(call: AggregateCall) -> IncrementalAggregate | None:
    total, mean = _build_total(call), _format_mean(call)
    if total is None or mean is None:
        return None
    return IncrementalAggregate(call, (total[0], _count_values(call)), f"CASE WHEN {{n}} > 0 THEN {mean} END")


def _format_mean(call: AggregateCall) -> str | None:
    """The template of a sum divided by a count; None if it cannot be rounded as Spark rounds an average.

    A quotient of decimals has so few digits that rounding it once more may be wrong; the quotient of the remainder has
    enough.
    """
    decimal = parse_decimal(call.type)
    if decimal is None:
        return "CAST({s} AS DOUBLE) / {n}"
    precision, scale = decimal
    if precision > 33 or scale > 11:
        return None
    number, result = "CAST({n} AS DECIMAL(13, 0))", f"DECIMAL({precision + 4}, {scale + 4})"
    remainder = f"({{s}} % {number})"
    parts = (f"CAST({part} / {number} AS {result})" for part in (f"({{s}} - {remainder})", remainder))
    return f"CAST({' + '.join(parts)} AS {result})"


def _decompose_variance(call: AggregateCall, *, root: bool, least: int) -> IncrementalAggregate | None:
    """Variance from the sums of the values and of their squares, exact for 32-bit integers."""
    if call.type not in ("TINYINT", "SMALLINT", "INT"):
        return None
    value = call.arguments[0]
    square = f"CAST(CAST({value} AS BIGINT) * CAST({value} AS BIGINT) AS DECIMAL(19, 0))"
    plain, signed = (f"COALESCE({v}, 0)" for v in (square, f"{square} * CAST({COUNT} AS DECIMAL(10, 0))"))
    squares = _build_sum(f"{call.name}_q", plain, signed, exact=True, cast="DECIMAL(36, 0)")
    total = _build_total(call)
    assert total is not None
    n, s, q = "CAST({n} AS DECIMAL(10, 0))", "CAST({s} AS DECIMAL(19, 0))", "CAST({q} AS DECIMAL(28, 0))"
    spread = f"CAST({n} * {q} - {s} * {s} AS DOUBLE) / (CAST({{n}} AS DOUBLE) * ({{n}} - {least}))"
    value_text = f"SQRT({spread})" if root else spread
    template = f"CASE WHEN {{n}} > {least} THEN {value_text} END"
    return IncrementalAggregate(call, (total[0], squares, _count_values(call)), template)


def _decompose_extreme(call: AggregateCall, *, function: str, choice: str) -> IncrementalAggregate:
    """An extreme of the old and the added values, which `choice` picks."""
    value = AggregateCall(f"{call.name}_v", function, call.arguments, call.type)
    return IncrementalAggregate(call, (Accumulator(value, value, f"{choice}({{old}}, {{new}})"),), "{v}")


_RULES: dict[str, Callable[[AggregateCall], IncrementalAggregate | None]] = {
    "count": _decompose_count,
    "count_if": lambda call: IncrementalAggregate(call, (_count_where(call, call.arguments[0].text),), "{n}"),
    "sum": _decompose_sum,
    **dict.fromkeys(("avg", "mean"), _decompose_avg),
    **dict.fromkeys(("variance", "var_samp"), partial(_decompose_variance, root=False, least=1)),
    "var_pop": partial(_decompose_variance, root=False, least=0),
    **dict.fromkeys(("stddev", "std", "stddev_samp"), partial(_decompose_variance, root=True, least=1)),
    "stddev_pop": partial(_decompose_variance, root=True, least=0),
    "min": partial(_decompose_extreme, function="min", choice="LEAST"),
    "max": partial(_decompose_extreme, function="max", choice="GREATEST"),
    **dict.fromkeys(("bool_and", "every"), partial(_decompose_extreme, function="bool_and", choice="LEAST")),
    **dict.fromkeys(("bool_or", "any", "some"), partial(_decompose_extreme, function="bool_or", choice="GREATEST")),
}
