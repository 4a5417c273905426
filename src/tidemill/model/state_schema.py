"""The schema of state rows that a task keeps between runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.model.schema import Field, Schema


@dataclass(frozen=True, slots=True)
class StateSchema:
    """State rows: their columns, and the key by which a later row replaces an earlier one."""

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
    """The columns of `schema`, all nullable, followed by those of `ddl`.

    They are nullable since of an event that left a queue only the number is kept.
    """
    nullable = tuple(Field(f.name, f.type) for f in schema)
    return Schema((*nullable, *Schema.from_ddl(ddl)))
