"""Plans that meet freshness targets: which flows run, in which mode and up to which version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.statement_count import count_statements
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.errors import ConfigError
from tidemill.model.run import RunState
from tidemill.model.workflow import WorkflowSpec
from tidemill.runtime.freshness.advice import explain_infeasible_targets
from tidemill.runtime.freshness.planning import INCREMENTAL_DISABLED
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.requests import request_flow_run

DAY = 86_400.0
RANKED = "SELECT p.url, s.users FROM pages p JOIN scores s ON p.site = s.site"


def build_workflow(**ranked: object) -> WorkflowSpec:
    wf = tm.Workflow("search")
    wf.input("pages", "url string, site string", key="url")
    wf.input("clicks", "user bigint, site string")
    wf.table("scores", "site string, users bigint")
    wf.table("ranked", "url string, users bigint")
    wf.sql("scores", "SELECT site, count(user) AS users FROM clicks GROUP BY site")
    wf.sql("ranked", RANKED, **ranked)  # type: ignore[arg-type]
    return wf.build_spec()


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    mill = Mill(build_workflow(target_lag={"pages": 0}, consistency=7 * DAY), tmp_path)
    yield mill
    mill.close()


def test_inputs_of_a_target_are_refreshed_first(mill: Mill) -> None:
    mill.insert("clicks", "1,a", "2,a", "3,b")
    assert mill.fire_due_triggers() == []  # clicks have no target
    mill.now += 1
    mill.insert("pages", "x,a", "y,b")
    (run,) = mill.fire_due_triggers()
    assert mill.attempt(run).state is RunState.FINISHED
    assert mill.list_refreshes() == [("scores", "batch"), ("ranked", "batch")]
    assert mill.rows("ranked") == {("x", 2), ("y", 1)}


def test_tables_that_no_target_needs_are_not_refreshed(mill: Mill) -> None:
    mill.insert("clicks", "1,a", "2,a", "3,b")
    mill.insert("pages", "x,a", "y,b")
    mill.attempt(mill.fire_due_triggers()[0])
    mill.now += DAY
    mill.insert("clicks", "4,b")
    mill.now += 1
    mill.insert("pages", "z,b")
    mill.attempt(mill.fire_due_triggers()[0])
    assert mill.list_refreshes()[2:] == [("ranked", "incremental:pages")]
    assert mill.rows("ranked") == {("x", 2), ("y", 1), ("z", 1)}  # clicks may be seven days behind


def test_an_inconsistency_beyond_the_bound_is_resolved(mill: Mill) -> None:
    mill.insert("clicks", "1,a", "2,a", "3,b")
    mill.insert("pages", "x,a", "y,b")
    mill.attempt(mill.fire_due_triggers()[0])
    mill.now += 1
    mill.insert("clicks", "4,b")
    mill.now += 8 * DAY
    mill.insert("pages", "z,b")
    mill.attempt(mill.fire_due_triggers()[0])
    assert {flow for flow, _ in mill.list_refreshes()[2:]} == {"scores", "ranked"}
    assert mill.rows("ranked") == {("x", 2), ("y", 2), ("z", 2)}


def test_a_requested_run_reflects_everything(mill: Mill) -> None:
    mill.insert("clicks", "1,a")
    mill.insert("pages", "x,a")
    mill.attempt(mill.fire_due_triggers()[0])
    mill.now += 1
    mill.insert("clicks", "2,a")
    mill.attempt(request_flow_run(mill.catalog, "ranked"))
    assert mill.rows("ranked") == {("x", 2)}


def test_a_table_is_due_when_its_target_lag_is_reached(tmp_path: Path) -> None:
    mill = Mill(build_workflow(target_lag=DAY), tmp_path)
    mill.insert("clicks", "1,a")
    mill.insert("pages", "x,a")
    mill.now += DAY - 1
    assert mill.fire_due_triggers() == []
    mill.now += 1
    (run,) = {r.id: r for r in mill.fire_due_triggers()}.values()
    mill.attempt(run)
    assert mill.rows("ranked") == {("x", 1)}
    assert mill.fire_due_triggers() == []
    mill.close()


@pytest.mark.parametrize("refresh", ["batch", "incremental"])
def test_one_input_has_different_lags_by_two_pathways(refresh: str, tmp_path: Path) -> None:
    wf = tm.Workflow("feedback")
    wf.input("log", "id bigint, news bigint")
    for name in ("news", "other", "feedback"):
        wf.table(name, "id bigint")
    wf.sql("news", "SELECT id FROM log WHERE news = 1")
    wf.sql("other", "SELECT id FROM log WHERE news = 0")
    union = "SELECT id FROM news UNION ALL SELECT id FROM other"
    wf.sql("feedback", union, refresh=refresh, target_lag={"news": "0s", "other": DAY})
    mill = Mill(wf.build_spec(), tmp_path)
    mill.insert("log", "1,1", "2,0")
    mill.attempt(mill.fire_due_triggers()[0])
    mill.now += DAY
    mill.insert("log", "3,1", "4,0")
    mill.attempt(mill.fire_due_triggers()[0])
    assert mill.rows("feedback") == {(1,), (2,), (3,)}
    assert {flow for flow, _ in mill.list_refreshes()[3:]} == {"news", "feedback"}
    mill.now += DAY  # no other rows arrive
    mill.attempt(mill.fire_due_triggers()[0])
    assert mill.rows("feedback") == {(1,), (2,), (3,), (4,)}
    assert mill.fire_due_triggers() == []
    mill.close()


def test_arrivals_do_not_postpone_a_deadline(tmp_path: Path) -> None:
    mill = Mill(build_workflow(target_lag=DAY), tmp_path)
    mill.catalog.triggers.set_freshness_deadline("ranked", mill.now + 60)
    mill.insert("clicks", "1,a")
    mill.now += 60
    assert len(mill.fire_due_triggers()) == 1
    mill.close()


def test_a_target_met_by_another_plan_needs_no_refresh(tmp_path: Path) -> None:
    mill = Mill(build_workflow(target_lag={"pages": 0, "clicks": DAY}), tmp_path)
    mill.insert("clicks", "1,a")
    mill.now += 1
    mill.insert("pages", "x,a")
    mill.attempt(mill.fire_due_triggers()[0])
    mill.now += DAY
    (late,) = mill.fire_due_triggers()  # due for the clicks, which are already reflected
    result = mill.attempt(late)
    assert (result.state, result.stats["plan"]["reason"]) == (RunState.FINISHED, "nothing is due")
    mill.close()


def test_arrivals_during_a_plan_wait_for_the_next(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    mill.insert("clicks", "1,a")
    mill.insert("pages", "x,a")
    (run,) = mill.fire_due_triggers()
    flow = mill.executor.run_flow

    def run_and_insert(*arguments: object, **options: object) -> object:
        result = flow(*arguments, **options)  # type: ignore[arg-type]
        mill.now += 1
        mill.insert("pages", "late,a")
        return result

    monkeypatch.setattr(Executor, "run_flow", lambda self, *arguments, **options: run_and_insert(*arguments, **options))
    mill.attempt(run)
    assert mill.rows("ranked") == {("x", 1)}
    monkeypatch.undo()
    mill.attempt(mill.fire_due_triggers()[0])
    assert mill.rows("ranked") == {("x", 1), ("late", 1)}


def test_a_target_below_past_run_times_is_infeasible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mill = Mill(build_workflow(target_lag="20s"), tmp_path)
    mill.insert("clicks", "1,a")
    mill.insert("pages", "x,a")
    assert list(explain_infeasible_targets(mill.catalog.runs, mill.workflow)) == []
    commit = type(mill.catalog.runs).commit

    def commit_slowly(*arguments: object, **options: object) -> object:
        mill.now += 12
        return commit(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type(mill.catalog.runs), "commit", commit_slowly)
    mill.attempt(request_flow_run(mill.catalog, "ranked"))
    (message,) = explain_infeasible_targets(mill.catalog.runs, mill.workflow)  # the pathway from pages takes 12 seconds
    assert message.startswith(
        "ranked must reflect clicks within 20 s, but refreshing it and what it derives from has taken"
    )
    assert "about 24.0 s recently" in message
    mill.close()


def build_flow_workflow(**target: object) -> WorkflowSpec:
    """A table derived from an output of a flow with several tasks."""
    wf, report = tm.Workflow("shop"), tm.Flow("report")
    wf.input("orders", "id bigint, city string")
    for name, columns in (
        ("large", "id bigint, city string"),
        ("totals", "city string, n bigint"),
        ("most", "n bigint"),
    ):
        wf.table(name, columns)

    @report.task(writes={"large": tm.Delta})
    def large(orders: tm.New) -> dict[str, tm.Delta]:
        return {"large": [o for o in orders if o["id"] > 10]}

    report.sql("totals", "SELECT city, count(id) AS n FROM large GROUP BY city")
    wf.bind(report)
    wf.sql("most", "SELECT max(n) AS n FROM totals", **target)  # type: ignore[arg-type]
    return wf.build_spec()


def test_a_flow_of_several_tasks_is_one_step_of_a_plan(tmp_path: Path) -> None:
    mill = Mill(build_flow_workflow(target_lag=0), tmp_path)
    mill.insert("orders", "1,a", "11,a", "12,a", "13,b")
    (run,) = mill.fire_due_triggers()
    assert mill.attempt(run).state is RunState.FINISHED
    assert mill.rows("most") == {(2,)}
    mill.now += 1
    mill.insert("orders", "14,b", "15,b", "2,b")
    mill.attempt(mill.fire_due_triggers()[0])
    assert mill.rows("most") == {(3,)}
    assert not mill.read_target_status("most").is_late
    mill.close()


def test_a_first_plan_writes_the_state_of_a_table_of_any_size(mill: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.planner.catalog_state.STATE_DROP_GAIN", -1.0)  # as if dropping the state saved a lot
    mill.insert("clicks", "1,a")
    mill.insert("pages", "x,a")
    mill.attempt(mill.fire_due_triggers()[0])
    assert ("scores", "batch") in mill.list_refreshes()


def test_each_table_of_a_flow_with_a_target_is_refreshed_in_its_cheapest_mode(tmp_path: Path) -> None:
    mill = Mill(build_flow_workflow(target_lag=0), tmp_path)
    for day in range(3):
        mill.now += DAY
        mill.insert("orders", f"{11 + day},a")
        mill.attempt(mill.fire_due_triggers()[0])
    (newest, *_) = mill.catalog.runs.list(subject="report")
    assert newest.stats["tasks"]["totals"]["variant"] == "incremental"
    assert mill.rows("most") == {(3,)}
    mill.close()


def test_a_requested_run_without_new_data_is_incremental(mill: Mill) -> None:
    mill.insert("clicks", "1,a")
    mill.insert("pages", "x,a")
    for flow in ("scores", "ranked"):  # without a target, and with one
        for _ in range(2):
            mill.controller.run_flow(mill.binding(flow))
    assert mill.list_refreshes() == [
        ("scores", "batch"), ("scores", "incremental"), ("ranked", "batch"), ("ranked", "incremental"),
    ]  # fmt: skip
    assert mill.rows("ranked") == {("x", 1)}


def test_the_settings_can_disable_incremental_refresh(tmp_path: Path) -> None:
    mill = Mill(build_workflow(), tmp_path)
    controller = replace(mill.controller, incremental=False)
    reasons: list[str] = []
    for _ in range(2):
        mill.insert("clicks", "1,a")
        controller.run_flow(mill.binding("scores"), on_choice=lambda c: reasons.append(c["scores"].reason))
    assert mill.list_refreshes() == [("scores", "batch")] * 2
    assert reasons == [INCREMENTAL_DISABLED] * 2
    mill.close()


def test_a_run_that_cannot_be_planned_fails(tmp_path: Path) -> None:
    mill = Mill(build_workflow(), tmp_path)
    mill.insert("clicks", "1,a")
    run = request_flow_run(mill.catalog, "scores")
    with pytest.raises(ConfigError, match="cannot be refreshed by variant 'incremental' now: there is no previous"):
        mill.controller.execute_run(run, mill.binding("scores"), variant="incremental")
    assert mill.catalog.runs.read(run.id).state is RunState.FAILED
    mill.close()


def build_search_workflow(*, scores_refresh: str = "auto") -> WorkflowSpec:
    """Pages that are only added, joined with scores that may be a week behind."""
    wf = tm.Workflow("search")
    wf.input("pages", "url string, site string")
    wf.input("clicks", "user bigint, site string")
    wf.table("scores", "site string, users bigint")
    wf.table("ranked", "url string, users bigint")
    scores = "SELECT site, count(user) AS users FROM clicks GROUP BY site"
    wf.sql("scores", scores, refresh=scores_refresh)
    wf.sql("ranked", RANKED, target_lag={"pages": 0}, consistency=7 * DAY)
    return wf.build_spec()


def test_the_difference_of_two_contents_is_a_change(tmp_path: Path) -> None:
    mill = Mill(build_search_workflow(scores_refresh="batch"), tmp_path)
    mill.insert("clicks", "1,a", "2,a", "3,b")
    mill.insert("pages", "x,a", "y,b")
    mill.attempt(mill.fire_due_triggers()[0])
    mill.now += 1
    mill.insert("clicks", "4,b")
    mill.attempt(request_flow_run(mill.catalog, "ranked"))
    assert mill.list_refreshes()[2:] == [("scores", "batch"), ("ranked", "incremental:scores")]
    assert mill.rows("ranked") == {("x", 2), ("y", 2)}
    mill.close()


def test_a_one_sided_join_competes_by_cost(tmp_path: Path) -> None:
    mill = Mill(build_search_workflow(), tmp_path)
    mill.insert("clicks", "1,a", "2,a", "3,b")
    mill.insert("pages", "x,a", "y,b")
    mill.attempt(mill.fire_due_triggers()[0])
    mill.now += 1
    mill.insert("clicks", "4,b")
    mill.controller.run_flow(mill.binding("scores"))  # the new scores exist, so reading them is no further step
    mill.now += 1
    mill.insert("pages", "z,b")
    mill.attempt(mill.fire_due_triggers()[0])
    assert mill.list_refreshes()[3:] == [("ranked", "incremental:pages")]
    assert mill.rows("ranked") == {("x", 2), ("y", 1), ("z", 1)}  # to join them again costs more, and can wait
    mill.now += 8 * DAY
    mill.insert("pages", "w,b")
    mill.attempt(mill.fire_due_triggers()[0])
    assert mill.rows("ranked") == {("x", 2), ("y", 2), ("z", 2), ("w", 2)}
    mill.close()


def test_a_strict_plan_reads_consistent_inputs(tmp_path: Path) -> None:
    """The same arrivals with and without the setting."""
    for strict, rows in ((False, {("x", 1), ("y", 1)}), (True, {("x", 2), ("y", 2)})):
        (tmp_path / str(strict)).mkdir()
        mill = Mill(build_search_workflow(), tmp_path / str(strict))
        controller = replace(mill.controller, strict=strict)
        mill.insert("clicks", "1,a")
        mill.insert("pages", "x,a")
        controller.execute_run(mill.fire_due_triggers()[0], mill.binding("ranked"))
        mill.now += 1
        mill.insert("clicks", "2,a")
        mill.now += 1
        mill.insert("pages", "y,a")
        controller.execute_run(mill.fire_due_triggers()[0], mill.binding("ranked"))
        assert mill.rows("ranked") == rows
        mill.close()


def count_plan_statements(directory: Path, unrelated: int) -> int:
    """The statements of one plan in a workflow with a number of tables that have nothing to do with it."""
    wf = tm.Workflow("wide")
    for number in range(unrelated + 1):
        wf.input(f"in{number}", "id bigint")
        wf.table(f"t{number}", "n bigint")
        wf.sql(f"t{number}", f"SELECT count(*) AS n FROM in{number}", target_lag=60)
    directory.mkdir()
    mill = Mill(wf.build_spec(), directory)
    mill.insert("in0", "1")
    mill.now += 61
    (run,) = mill.fire_due_triggers()
    with count_statements(mill.catalog) as statements:
        mill.attempt(run)
    assert mill.rows("t0") == {(1,)}
    mill.close()
    return statements.count


def count_read_statements(directory: Path, inputs: int) -> int:
    """The statements by which a second run of one table reads what it needs of its inputs."""
    wf = tm.Workflow("wide")
    names = [f"in{number}" for number in range(inputs)]
    for name in names:
        wf.input(name, "id bigint")
    wf.table("t", "id bigint")
    wf.sql("t", " UNION ALL ".join(f"SELECT id FROM {name}" for name in names), target_lag=60)
    directory.mkdir()
    mill = Mill(wf.build_spec(), directory)
    for wave in range(2):
        for number, name in enumerate(names):
            mill.insert(name, str(100 * wave + number))
        with count_statements(mill.catalog) as statements:
            mill.controller.run_flow(mill.binding("t"))
    assert len(mill.rows("t")) == 2 * inputs
    mill.close()
    return statements.count


def test_a_run_reads_few_and_many_inputs_by_as_many_queries(tmp_path: Path) -> None:
    few, many = count_read_statements(tmp_path / "few", 2), count_read_statements(tmp_path / "many", 6)
    assert many - few <= 2 * 4  # each further input has a cursor to move


def test_a_plan_costs_as_much_among_many_unrelated_tables(tmp_path: Path) -> None:
    assert count_plan_statements(tmp_path / "one", 0) == count_plan_statements(tmp_path / "many", 20)
