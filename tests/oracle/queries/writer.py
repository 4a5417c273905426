"""What every rule of the grammar writes with: chance, the tables in reach, and names not yet used."""

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
class Pen:
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
        """A relation's name: unlike others that can be named where it can."""
        return f"r{next(self.aliases)}"

    def apart(self) -> Pen:
        """For a query that can name nothing of what is around it, and whose relations may be called as those are."""
        return replace(self, aliases=count(1))

    def reading(self, tables: Mapping[str, Columns]) -> Pen:
        return replace(self, tables=tables)


def exact(scope: Columns, *types: Type) -> list[Column]:
    """The columns that may be computed with, of these types or of any scalar one."""
    return [c for c in scope if c.exact and c.type in (types or SCALARS)]


def renamed(columns: Columns, within: str) -> Columns:
    return tuple(replace(c, within=within) for c in columns)
