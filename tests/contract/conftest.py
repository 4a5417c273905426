"""Fixtures: one catalog contract, tested on two databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.catalog.driver import WORKFLOW, Driver, FakeClock
from tests.databases import backend, empty_url, postgresql_url, server, sqlite_template, url

from tidemill.catalog import SqlCatalog, open_catalog

__all__ = ["backend", "empty_url", "postgresql_url", "server", "sqlite_template", "url"]


LONG_ON_POSTGRESQL = {
    f"test_catalog_{name}.py"
    for name in (
        *("alarms", "apply", "compaction", "expiry", "flow_statistics", "history_expiry", "lost_attempts"),
        *("minor_compaction", "oneshot", "read", "removals", "runs", "schemas", "triggers"),
    )
}
"""Tests of plain statements: `make test-long` repeats them on PostgreSQL. Locks and races are tested on both always."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.path.name in LONG_ON_POSTGRESQL and "[postgresql" in item.name:
        item.add_marker(pytest.mark.long)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def open_another(url: str, clock: FakeClock) -> Iterator[Callable[[], SqlCatalog]]:
    """Opens the same catalog any number of times."""
    catalogs: list[SqlCatalog] = []

    def open_again() -> SqlCatalog:
        catalogs.append(open_catalog(url, clock))
        return catalogs[-1]

    yield open_again
    for catalog in catalogs:
        catalog.close()


@pytest.fixture
def catalog(open_another: Callable[[], SqlCatalog]) -> SqlCatalog:
    return open_another()


@pytest.fixture
def driver(catalog: SqlCatalog, clock: FakeClock) -> Driver:
    catalog.workflows.apply(WORKFLOW)
    return Driver(catalog, clock)
