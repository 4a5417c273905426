"""What every rule of the grammar writes with: Hypothesis' choices, the tables in reach, and names not yet used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import strategies as st
from tests.oracle.queries.columns import SCALARS, Column, Columns, Type

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query:
    """Spark SQL text, and the columns of its result."""

    text: str
    columns: Columns


@dataclass(frozen=True, slots=True)
class Pen:
    draw: st.DrawFn
    tables: Mapping[str, Columns]
    numbers: Iterator[int]

    def one(self, options: Sequence[T]) -> T:
        """One of the options; Hypothesis shrinks towards the first."""
        return self.draw(st.sampled_from(options))

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        return self.draw(st.lists(st.sampled_from(options), min_size=least, max_size=most))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(1, 100)) > 100 - percent

    def name(self, prefix: str) -> str:
        return f"{prefix}{next(self.numbers)}"

    def reading(self, tables: Mapping[str, Columns]) -> Pen:
        return replace(self, tables=tables)


def exact(scope: Columns, *types: Type) -> list[Column]:
    """The columns that may be computed with, of these types or of any scalar one."""
    return [c for c in scope if c.exact and c.type in (types or SCALARS)]


def renamed(columns: Columns, within: str) -> Columns:
    return tuple(replace(c, within=within) for c in columns)
