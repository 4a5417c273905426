"""A test case: declared queries, their inputs, and the inserts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

import sqlglot
from sqlglot import exp
from tests.oracle.queries.histories import Input, Step

from tidemill.model.schema import Schema


class Scale(StrEnum):
    """The size that data is treated as: large data is read and merged by other code."""

    SMALL = "small"
    LARGE = "large content"  # and a small change
    HUGE = "large change"


@dataclass(frozen=True, slots=True)
class Case:
    """Queries run in the order given; later ones may read earlier ones."""

    queries: Mapping[str, str]
    inputs: Sequence[Input]
    history: Sequence[Step]
    scale: Scale = Scale.SMALL

    @property
    def schemas(self) -> dict[str, Schema]:
        return {i.name: Schema.from_ddl(i.schema) for i in self.inputs}

    def until(self, steps: int) -> Case:
        return replace(self, history=self.history[:steps])

    def about(self, table: str) -> Case:
        """The part of the case that one table needs."""
        queries = self._find_read_queries(table)
        read = _find_tables(queries.values())
        return Case(
            queries,
            [i for i in self.inputs if i.name in read],
            [[i for i in step if i.channel in read] for step in self.history],
            self.scale,
        )

    def levels(self) -> list[list[str]]:
        """The tables in levels: those of one level do not read each other."""
        depth: dict[str, int] = {}
        for name, text in self.queries.items():
            depth[name] = 1 + max((depth[t] for t in _find_tables([text]) if t in depth), default=-1)
        return [[t for t in depth if depth[t] == level] for level in range(max(depth.values(), default=-1) + 1)]

    def _find_read_queries(self, table: str) -> dict[str, str]:
        needed, pending = {table}, [table]
        while pending:
            reads = (_find_tables([self.queries[pending.pop()]]) & self.queries.keys()) - needed
            needed |= reads
            pending += reads
        return {name: text for name, text in self.queries.items() if name in needed}


def _find_tables(texts: Iterable[str]) -> set[str]:
    """The names of the tables that the queries read, in lower case."""
    return {name for text in texts for name in _list_tables(text)}


@cache
def _list_tables(text: str) -> frozenset[str]:
    return frozenset(t.name.lower() for t in sqlglot.parse_one(text, dialect="spark").find_all(exp.Table))
