"""Counting of SQL statements, for benchmarks and tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import event

from tidemill.catalog.catalog import SqlCatalog


@dataclass(slots=True)
class StatementCounter:
    count: int = 0

    def __call__(self, *_details: object) -> None:
        self.count += 1


@contextmanager
def count_statements(catalog: SqlCatalog) -> Iterator[StatementCounter]:
    """Count the statements that the catalog executes in this context."""
    statements = StatementCounter()
    event.listen(catalog.database.engine, "before_cursor_execute", statements)
    try:
        yield statements
    finally:
        event.remove(catalog.database.engine, "before_cursor_execute", statements)
