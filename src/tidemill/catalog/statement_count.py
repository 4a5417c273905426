"""How many statements the database was asked, for measurements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import event

from tidemill.catalog.writer import SqlCatalog


@dataclass(slots=True)
class StatementCounter:
    count: int = 0

    def __call__(self, *_details: object) -> None:
        self.count += 1


@contextmanager
def count_statements(catalog: SqlCatalog) -> Iterator[StatementCounter]:
    """Count what the catalog asks from now on."""
    statements = StatementCounter()
    event.listen(catalog._engine, "before_cursor_execute", statements)
    try:
        yield statements
    finally:
        event.remove(catalog._engine, "before_cursor_execute", statements)
