"""A fixture of a catalog that tests drive through complete runs without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.catalog.driver import WORKFLOW, Driver, FakeClock

from tidemill.catalog import open_catalog


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    clock = FakeClock()
    catalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", clock)
    catalog.workflows.apply(WORKFLOW)
    yield Driver(catalog, clock)
    catalog.close()
