"""The state that all rules of the grammar share: the random generator, the tables in scope, and unused names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import TypeVar

from tests.oracle.queries.columns import SCALARS, Column, Columns, Type

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query:
    """Spark SQL text, and the columns of its result."""

    text: str
    columns: Columns


@dataclass(frozen=True, slots=True)
class QueryWriter:
    random: Random
    tables: Mapping[str, Columns]
    numbers: Iterator[int]
    aliases: Iterator[int]

    def one(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        return self.random.choices(options, k=self.random.randint(least, most))

    def chance(self, percent: int) -> bool:
        return self.random.random() < percent / 100

    def name(self, prefix: str) -> str:
        return f"{prefix}{next(self.numbers)}"

    def alias(self) -> str:
        """A name for a relation, unique in its scope."""
        return f"r{next(self.aliases)}"

    def apart(self) -> QueryWriter:
        """For a query that cannot refer to its surroundings, so that aliases may repeat."""
        return replace(self, aliases=count(1))

    def reading(self, tables: Mapping[str, Columns]) -> QueryWriter:
        return replace(self, tables=tables)


def exact(scope: Columns, *types: Type) -> list[Column]:
    """The columns that expressions may use, of these types or of any scalar type."""
    return [c for c in scope if c.exact and c.type in (types or SCALARS)]


def qualify_columns(columns: Columns, within: str) -> Columns:
    return tuple(replace(c, within=within) for c in columns)
