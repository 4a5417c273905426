"""A deterministic task is not run again for the same inputs: its block shares the files of the earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.plain import QueryEngine
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.intake.loader import load_file
from tidemill.model.block import Block, BlockKind
from tidemill.model.schema import Schema
from tidemill.model.store import GracePeriods
from tidemill.model.task import Task
from tidemill.model.workflow import WorkflowSpec
from tidemill.runtime.maintenance.vacuum import VacuumService
from tidemill.runtime.runs.insert import Inserter
from tidemill.runtime.runs.requests import request_flow_run

CALLS: list[str] = []


class CountingEngine(QueryEngine):
    """Records the tasks that it runs."""

    def run_task(self, task: Task, *args: Any, **options: Any) -> Mapping[str, Schema]:
        CALLS.append(task.name)
        return super().run_task(task, *args, **options)


@pytest.fixture(autouse=True)
def _forget_calls() -> None:
    CALLS.clear()


def build_counts(**options: Any) -> WorkflowSpec:
    """A task that reads a full content and writes one, bound twice."""
    flow = tm.Flow("counting")

    @flow.task(writes={"counts": tm.Base}, **options)
    def count(words: tm.All) -> dict[str, tm.Base]:
        return {"counts": [{"n": len(words)}]}

    wf = tm.Workflow("shop")
    wf.input("words", "word string")
    wf.table("counts", "n bigint")
    wf.table("copies", "n bigint")
    wf.bind(flow, name="first")
    wf.bind(flow, name="second", counts="copies")
    return wf.build_spec()


def insert(mill: Mill, *words: str) -> None:
    path = mill.directory / "words.csv"
    path.write_text("word\n" + "".join(f"{word}\n" for word in words))
    Inserter(mill.executor, load_file).insert_file("words", path, kind=BlockKind.BASE)


def run(mill: Mill, flow: str = "first") -> Block:
    finished = mill.attempt(request_flow_run(mill.catalog, flow))
    assert finished.error is None, finished.error
    (block,) = mill.catalog.blocks.list_written(finished.id)
    return block


def open_mill(directory: Path, **options: Any) -> Mill:
    return Mill(build_counts(**options), directory, CountingEngine)


def test_equal_inputs_are_computed_once(tmp_path: Path) -> None:
    with closing(open_mill(tmp_path, deterministic=True)) as mill:
        insert(mill, "a", "b")
        first, again = run(mill), run(mill)
        assert (len(CALLS), again.seq, again.files) == (1, first.seq + 1, first.files)
        assert mill.content("counts") == [{"n": 2}]
        stats = mill.catalog.runs.read(again.run or 0).stats["tasks"]["count"]
        assert (stats["reused_blocks"], stats["rows_out"]) == (str(first.id), 1)
        assert f"reuses block {first.id} of counts" in mill.catalog.runs.read_log(again.run or 0)
        insert(mill, "a")
        assert run(mill).files != first.files
        insert(mill, "a", "b")
        assert run(mill).files == first.files
        assert len(CALLS) == 2


def test_the_same_task_on_another_channel_is_reused(tmp_path: Path) -> None:
    with closing(open_mill(tmp_path, deterministic=True)) as mill:
        insert(mill, "a", "b")
        assert run(mill, "second").files == run(mill, "first").files
        assert len(CALLS) == 1
        assert mill.content("copies") == mill.content("counts") == [{"n": 2}]


@pytest.mark.parametrize("options", [{}, {"deterministic": False}, {"deterministic": True, "environment": ["REGION"]}])
def test_other_tasks_are_run_each_time(tmp_path: Path, options: dict[str, Any]) -> None:
    """They may read from outside."""
    with closing(open_mill(tmp_path, **options)) as mill:
        insert(mill, "a")
        assert run(mill).files != run(mill).files
        assert len(CALLS) == 2


def test_a_changed_version_is_computed(tmp_path: Path) -> None:
    with closing(open_mill(tmp_path, deterministic=True)) as mill:
        insert(mill, "a")
        before = run(mill)
        mill.workflow = build_counts(deterministic=True, version="2")
        mill.catalog.workflows.apply(mill.workflow)
        assert run(mill).files != before.files


def test_missing_files_are_not_reused(tmp_path: Path) -> None:
    with closing(open_mill(tmp_path, deterministic=True)) as mill:
        insert(mill, "a")
        mill.executor.store.delete_files([f.path for f in run(mill).files])
        run(mill)
        assert mill.content("counts") == [{"n": 1}]


def test_shared_files_stay_while_a_block_refers_to_them(tmp_path: Path) -> None:
    with closing(open_mill(tmp_path, deterministic=True)) as mill:
        insert(mill, "a")
        run(mill)
        run(mill)
        collected = VacuumService(mill.executor, grace=GracePeriods(0.0, 0.0)).collect_garbage()
        assert (collected.blocks, collected.files) == (1, 0)
        assert mill.content("counts") == [{"n": 1}]
