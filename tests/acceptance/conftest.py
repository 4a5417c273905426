"""Fixtures: projects with embedded defaults and the shared Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.databases import backend, empty_url, postgresql_url, server, sqlite_template, url

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.model.change import Rows
from tidemill.model.schema import Schema

__all__ = ["backend", "empty_url", "postgresql_url", "server", "sqlite_template", "url"]


def name_values(schema: str, rows: Iterable[tuple[Any, ...]]) -> Rows:
    """Rows for `Tidemill.insert`, which writes them without a Spark job."""
    return [dict(zip(Schema.from_ddl(schema).names, row, strict=True)) for row in rows]


Open = Callable[[tm.Workflow], Tidemill]


@pytest.fixture
def open_mill(spark: SparkSession, tmp_path: Path) -> Iterator[Open]:
    """Open a project and apply its workflow; opening again changes the workflow."""
    mills: list[Tidemill] = []

    def open_with(workflow: tm.Workflow) -> Tidemill:
        mills.append(Tidemill(tmp_path, Settings(), Project((workflow.build_spec(),))))
        mills[-1].apply()
        return mills[-1]

    yield open_with
    for mill in mills:
        mill.close()
