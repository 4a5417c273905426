"""Compares two results as bags of rows; only doubles may differ, by rounding."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tidemill.algebra.reference import to_hashable
from tidemill.model.change import Rows

RELATIVE = 1e-9
ROUNDED = 1e-6
"""Maximum difference between Spark's average of decimals, a decimal, and DuckDB's, a double."""

Exact = tuple[Hashable, ...]
Numbers = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The rows that are on one side only."""

    left: list[dict[str, Any]]
    right: list[dict[str, Any]]

    def __bool__(self) -> bool:
        return bool(self.left or self.right)


def difference(left: Rows, right: Rows) -> Difference:
    """The rows that differ; empty if the bags are the same.

    >>> difference([{"a": 1, "f": 0.1 + 0.2}], [{"a": 1, "f": 0.3}])
    Difference(left=[], right=[])
    >>> difference([{"a": 1}, {"a": 1}], [{"a": 1}, {"a": True}])
    Difference(left=[{'a': 1}], right=[{'a': True}])
    """
    floats = _find_float_columns(left + right)
    waiting: dict[Exact, list[tuple[Numbers, dict[str, Any]]]] = defaultdict(list)
    for row in right:
        waiting[_list_exact_values(row, floats)].append((_list_numbers(row, floats), row))
    only_left = [r for r in left if not _take_row(waiting[_list_exact_values(r, floats)], _list_numbers(r, floats))]
    return Difference(only_left, [row for rows in waiting.values() for _, row in rows])


def _take_row(candidates: list[tuple[Numbers, dict[str, Any]]], numbers: Numbers) -> bool:
    """Remove one row with these numbers, if there is one."""
    for place, (others, _) in enumerate(candidates):
        if all(map(_is_close, numbers, others)):
            del candidates[place]
            return True
    return False


def _find_float_columns(rows: Rows) -> frozenset[str]:
    """The columns in which either side has a double: an average of decimals is a double only in DuckDB."""
    return frozenset(name for row in rows for name, value in row.items() if isinstance(value, float))


def _list_exact_values(row: dict[str, Any], floats: frozenset[str]) -> Exact:
    return tuple((name, _normalize(value)) for name, value in row.items() if name not in floats)


def _list_numbers(row: dict[str, Any], floats: frozenset[str]) -> Numbers:
    return tuple(value for name, value in row.items() if name in floats)


def _is_close(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    slack = ROUNDED if isinstance(left, Decimal) or isinstance(right, Decimal) else RELATIVE
    a, b = float(left), float(right)
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=RELATIVE, abs_tol=slack)


def _normalize(value: Any) -> Hashable:
    """One Python value for values that the engines' drivers return differently; True is not 1 here."""
    match value:
        case bool():
            return ("boolean", value)
        case dt.datetime():
            return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        case _:
            return to_hashable(value)
