"""Fixtures: one catalog contract, tested on two databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.catalog.driver import WORKFLOW, Driver, FakeClock
from tests.databases import backend, empty_url, postgresql_url, server, sqlite_template, url

from tidemill.catalog import SqlCatalog, open_catalog

__all__ = ["backend", "empty_url", "postgresql_url", "server", "sqlite_template", "url"]


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
