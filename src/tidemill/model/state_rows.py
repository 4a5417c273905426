"""Rows that a step keeps between runs, declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.model.schema import Field, Schema


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows of state: their columns, and the key by which a later row takes the place of an earlier one."""

    schema: Schema
    key: tuple[str, ...]

    @classmethod
    def parse(cls, ddl: str, key: str | tuple[str, ...]) -> Kept:
        return cls(Schema.parse(ddl), (key,) if isinstance(key, str) else key)

    def problems(self) -> Iterator[str]:
        for name in self.key:
            if name not in self.schema:
                yield f"its key {name!r} is not a column of it (it has {', '.join(self.schema.names)})"


def widened(schema: Schema, ddl: str) -> Schema:
    """Columns, and others after them. Any may be NULL: of what left a queue nothing is kept but its number."""
    own = tuple(Field(f.name, f.type) for f in schema)
    return Schema((*own, *Schema.parse(ddl)))
