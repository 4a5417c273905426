"""Tables of workflows that are registered as documents, on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.app.test_registry import SHOP

from tidemill.app.project import Project
from tidemill.app.registry import build_workflow, parse_definition
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import Conflict, NotFound
from tidemill.model.workflow import WorkflowSpec
from tidemill.runtime.inspect.status import read_status

Open = Callable[..., Tidemill]


@pytest.fixture
def open_mill(spark: SparkSession, tmp_path: Path) -> Iterator[Open]:
    mills: list[Tidemill] = []

    def open_with(*workflows: WorkflowSpec) -> Tidemill:
        mills.append(Tidemill(tmp_path, Settings(), Project(workflows)))
        return mills[-1]

    yield open_with
    for mill in mills:
        mill.close()


def test_a_registered_table_is_refreshed_until_it_is_removed(open_mill: Open, tmp_path: Path) -> None:
    mill = open_mill()
    assert [s.name for s in mill.workflows.register(SHOP)][:2] == ["orders", "totals"]
    assert mill.workflows.register(SHOP) == ()
    (tmp_path / "o.jsonl").write_text('{"id": 1, "item": "tea", "price": 3}\n{"id": 2, "item": "tea", "price": 4}\n')
    mill.insert("orders", tmp_path / "o.jsonl")
    mill.run("totals")
    assert [f.pending_channels for f in read_status(mill.catalog).flows] == [()]  # its own state is not pending either
    (tmp_path / "p.jsonl").write_text('{"id": 2, "item": "tea", "price": 5}\n')
    mill.insert("orders", tmp_path / "p.jsonl")
    mill.run("totals")
    assert mill.rows("totals") == [{"item": "tea", "price": 8}]
    assert [w.name for w in mill.catalog.workflows.list()] == ["shop"]
    mill.workflows.remove("shop")
    assert mill.catalog.workflows.list() == []
    with pytest.raises(NotFound):
        mill.run("totals")
    with pytest.raises(NotFound):
        mill.workflows.remove("nope")
    mill.workflows.register(SHOP)
    assert mill.rows("totals") == [{"item": "tea", "price": 8}]


def test_a_document_cannot_replace_a_workflow_declared_in_a_file(open_mill: Open) -> None:
    mill = open_mill(build_workflow(parse_definition(SHOP)))
    with pytest.raises(Conflict, match="declared by a workflow file"):
        mill.workflows.register(SHOP)
    with pytest.raises(Conflict, match="declared by a workflow file"):
        mill.workflows.remove("shop")
