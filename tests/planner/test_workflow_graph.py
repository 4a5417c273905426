"""The part of a workflow that a plan depends on."""

from __future__ import annotations

import pytest

import tidemill as tm
from tidemill.model.flow import BoundFlow
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.workflow_graph import build_graph, select_upstream


def build_workflow(**options: object) -> WorkflowSpec:
    """Two chains of tables that have no input in common."""
    wf = tm.Workflow("chains")
    for source, tables in (("clicks", ("daily", "weekly", "yearly")), ("pages", ("titles", "words"))):
        wf.input(source, "k bigint, v bigint")
        for name, parent in zip(tables, (source, *tables), strict=False):
            wf.table(name, "k bigint, v bigint")
            target = options if name in ("weekly", "words") else {}
            wf.sql(name, f"SELECT k, sum(v) AS v FROM {parent} GROUP BY k", **target)  # type: ignore[arg-type]
    return wf.build_spec()


def find_flow(workflow: WorkflowSpec, name: str) -> BoundFlow:
    return next(b for b in workflow.bindings if b.name == name)


def test_flows_upstream_are_selected_with_their_channels() -> None:
    workflow = build_workflow(target_lag=60)
    selected = select_upstream(workflow, find_flow(workflow, "weekly"))
    assert [b.name for b in selected.bindings] == ["daily", "weekly"]
    assert {"clicks", "daily", "weekly"} <= {c.name for c in selected.channels}
    assert not {"yearly", "pages", "titles", "words"} & {c.name for c in selected.channels}


@pytest.mark.parametrize("flow", ["daily", "weekly", "yearly", "words"])
def test_the_selected_tasks_are_planned_as_in_the_whole_workflow(flow: str) -> None:
    workflow = build_workflow(target_lag=60)
    selected = build_graph(select_upstream(workflow, find_flow(workflow, flow)))
    tasks, channels = (
        {p.name: p for p in parts} for parts in (build_graph(workflow).tasks, build_graph(workflow).channels)
    )
    assert all(task == tasks[task.name] for task in selected.tasks)
    assert all(channel.bounds == channels[channel.name].bounds for channel in selected.channels)


def test_other_writers_of_the_same_channels_are_selected() -> None:
    wf = tm.Workflow("writers")
    wf.table("copies", "k bigint")
    for source in ("one", "two", "three"):
        wf.input(source, "k bigint")
        target = "copies" if source != "three" else "other"
        wf.command(f"copy_{source}", ["cp"], reads={source: tm.New}, writes={target: tm.Delta})
    workflow = wf.build_spec()
    selected = select_upstream(workflow, find_flow(workflow, "copy_one"))
    assert [b.name for b in selected.bindings] == ["copy_one", "copy_two"]


def test_a_table_that_accepts_only_changes_is_planned_in_the_whole_workflow() -> None:
    workflow = build_workflow(target_lag=60, accepts=["delta"])
    assert select_upstream(workflow, find_flow(workflow, "weekly")) is workflow
    assert select_upstream(workflow, find_flow(workflow, "daily")) is not workflow
