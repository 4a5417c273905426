"""The schema of rows that a step keeps between runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.model.schema import Field, Schema


@dataclass(frozen=True, slots=True)
class StateSchema:
    """Rows of state: their columns, and the key by which a later row takes the place of an earlier one."""

    schema: Schema
    key: tuple[str, ...]

    @classmethod
    def from_ddl(cls, ddl: str, key: str | tuple[str, ...]) -> StateSchema:
        return cls(Schema.from_ddl(ddl), (key,) if isinstance(key, str) else key)

    def find_problems(self) -> Iterator[str]:
        for name in self.key:
            if name not in self.schema:
                yield f"its key {name!r} is not a column of it (it has {', '.join(self.schema.names)})"


def widen_schema(schema: Schema, ddl: str) -> Schema:
    """Columns, and others after them. Any may be NULL: of what left a queue nothing is kept but its number."""
    own = tuple(Field(f.name, f.type) for f in schema)
    return Schema((*own, *Schema.from_ddl(ddl)))
