"""Small versions of the measurements under load, and the rules that decide them."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.endurance import KINDS, MemorySample, render_samples, summarize_samples
from benchmarks.goals import Goal, judge_goals
from benchmarks.large_catalog import generate_tables
from benchmarks.many_tables import TargetSample
from benchmarks.many_tables import summarize_samples as summarize_targets
from benchmarks.tables_workflow import build_workflow, count_inputs, format_workflow_file

from tidemill.app.wiring import Tidemill
from tidemill.runtime.inspect.status import read_status


def test_a_goal_holds_up_to_its_limit() -> None:
    goals = (Goal("a", 1.0, "a is small"), Goal("b", 0, "b is zero"))
    assert judge_goals(goals, {"a": 1.0, "b": 0})["holds"]
    verdict = judge_goals(goals, {"a": 1.1, "b": 0})
    assert ([g["holds"] for g in verdict["goals"]], verdict["holds"]) == ([False, True], False)


def build_samples(jvm: list[float]) -> list[MemorySample]:
    return [MemorySample(20 * n, float(n), 100.0, 0.0, megabytes) for n, megabytes in enumerate(jvm)]


def test_memory_that_only_grows_in_the_first_quarter_is_flat() -> None:
    document = summarize_samples(build_samples([100.0, 500.0, 990.0, 1000.0, 980.0, 1010.0, 1000.0, 1020.0]))
    assert document["holds"]
    assert document["jvm_growth"] == pytest.approx(1010 / 995, abs=0.001)
    assert (document["workers_growth"], document["refreshes"]) == (1.0, 140)


def test_memory_that_keeps_growing_is_not_flat() -> None:
    document = summarize_samples(build_samples([100.0 + 20 * n for n in range(16)]))
    assert not document["holds"]
    assert [g["holds"] for g in document["goals"]] == [True, True, False]


def test_the_chart_has_a_line_for_each_kind_of_process() -> None:
    chart = render_samples(build_samples([1.0, 2.0, 3.0]))
    assert all(f">{kind}</text>" in chart for kind in KINDS)


def test_a_missed_target_is_reported() -> None:
    kept = [TargetSample(5.0 * n, 0, 1.0, 100 * n) for n in range(13)]
    document = summarize_targets(kept, tables=10, lag=60.0)
    assert (document["holds"], document["refreshes_a_minute"]) == (True, 1200.0)
    assert not summarize_targets([*kept, TargetSample(70.0, 2, 9.0, 1400)], tables=10, lag=60.0)["holds"]


def test_the_tables_of_a_workflow_have_different_columns() -> None:
    workflow = build_workflow(40).build_spec()
    tables = [c for c in workflow.channels if c.name.startswith("t") and c.name[1:].isdigit()]
    assert len({str(c.schema) for c in tables}) == 40
    assert sum(c.name.startswith("in") for c in workflow.channels) == count_inputs(40) == 2
    assert "wf = build_workflow(40, 5.0)" in format_workflow_file(40, 5.0)


def test_generated_tables_were_refreshed_once_and_lag_behind(tmp_path: Path) -> None:
    generate_tables(tmp_path, 24)
    with Tidemill.open(tmp_path) as mill:
        status = read_status(mill.catalog)
    assert len(status.flows) == 24
    assert all(flow.last is not None and flow.last.state == "finished" for flow in status.flows)
    pending = [flow.name for flow in status.flows if flow.pending_channels]
    assert len(pending) == 18  # the others read tables that have not changed since
