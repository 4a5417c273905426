"""Promises are kept by plans: which flows run, how, up to where, and what is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.model.run import RunState
from tidemill.model.workflow import WorkflowSpec
from tidemill.runtime.freshness.infeasible_targets import explain_infeasible_targets
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.requests import request_flow_run

DAY = 86_400.0
RANKED = "SELECT p.url, s.users FROM pages p JOIN scores s ON p.site = s.site"


def declared(**ranked: object) -> WorkflowSpec:
    wf = tm.Workflow("search")
    wf.input("pages", "url string, site string", key="url")
    wf.input("clicks", "user bigint, site string")
    wf.table("scores", "site string, users bigint")
    wf.table("ranked", "url string, users bigint")
    wf.sql("scores", "SELECT site, count(user) AS users FROM clicks GROUP BY site")
    wf.sql("ranked", RANKED, **ranked)  # type: ignore[arg-type]
    return wf.declared()


@pytest.fixture
def asynchronous(tmp_path: Path) -> Iterator[Mill]:
    mill = Mill(declared(target_lag={"pages": 0}, consistency=7 * DAY), tmp_path)
    yield mill
    mill.close()


def test_what_a_promise_needs_is_made_first(asynchronous: Mill) -> None:
    mill = asynchronous
    mill.insert("clicks", "1,a", "2,a", "3,b")
    assert mill.due() == []  # nothing is promised of clicks alone
    mill.now += 1
    mill.insert("pages", "x,a", "y,b")
    (run,) = mill.due()
    assert mill.keep(run).state is RunState.FINISHED
    assert mill.ran() == [("scores", "batch"), ("ranked", "batch")]
    assert mill.rows("ranked") == {("x", 2), ("y", 1)}


def test_what_no_promise_needs_is_left_alone(asynchronous: Mill) -> None:
    mill = asynchronous
    mill.insert("clicks", "1,a", "2,a", "3,b")
    mill.insert("pages", "x,a", "y,b")
    mill.keep(mill.due()[0])
    mill.now += DAY
    mill.insert("clicks", "4,b")
    mill.now += 1
    mill.insert("pages", "z,b")
    mill.keep(mill.due()[0])
    assert mill.ran()[2:] == [("ranked", "incremental:pages")]
    assert mill.rows("ranked") == {("x", 2), ("y", 1), ("z", 1)}  # clicks may be seven days behind


def test_what_would_be_too_far_apart_is_brought_together(asynchronous: Mill) -> None:
    mill = asynchronous
    mill.insert("clicks", "1,a", "2,a", "3,b")
    mill.insert("pages", "x,a", "y,b")
    mill.keep(mill.due()[0])
    mill.now += 1
    mill.insert("clicks", "4,b")
    mill.now += 8 * DAY
    mill.insert("pages", "z,b")
    mill.keep(mill.due()[0])
    assert {flow for flow, _ in mill.ran()[2:]} == {"scores", "ranked"}
    assert mill.rows("ranked") == {("x", 2), ("y", 2), ("z", 2)}


def test_a_run_that_somebody_asks_for_reflects_everything(asynchronous: Mill) -> None:
    mill = asynchronous
    mill.insert("clicks", "1,a")
    mill.insert("pages", "x,a")
    mill.keep(mill.due()[0])
    mill.now += 1
    mill.insert("clicks", "2,a")
    mill.keep(request_flow_run(mill.catalog, "ranked"))
    assert mill.rows("ranked") == {("x", 2)}


def test_a_lag_makes_a_table_due_when_its_time_comes(tmp_path: Path) -> None:
    mill = Mill(declared(target_lag=DAY), tmp_path)
    mill.insert("clicks", "1,a")
    mill.insert("pages", "x,a")
    mill.now += DAY - 1
    assert mill.due() == []
    mill.now += 1
    (run,) = {r.id: r for r in mill.due()}.values()
    mill.keep(run)
    assert mill.rows("ranked") == {("x", 1)}
    assert mill.due() == []
    mill.close()


@pytest.mark.parametrize("refresh", ["batch", "incremental"])
def test_one_input_is_reflected_at_once_by_one_way_and_later_by_another(refresh: str, tmp_path: Path) -> None:
    wf = tm.Workflow("feedback")
    wf.input("log", "id bigint, news bigint")
    for name in ("news", "other", "feedback"):
        wf.table(name, "id bigint")
    wf.sql("news", "SELECT id FROM log WHERE news = 1")
    wf.sql("other", "SELECT id FROM log WHERE news = 0")
    union = "SELECT id FROM news UNION ALL SELECT id FROM other"
    wf.sql("feedback", union, refresh=refresh, target_lag={"news": "0s", "other": DAY})
    mill = Mill(wf.declared(), tmp_path)
    mill.insert("log", "1,1", "2,0")
    mill.keep(mill.due()[0])
    mill.now += DAY
    mill.insert("log", "3,1", "4,0")
    mill.keep(mill.due()[0])
    assert mill.rows("feedback") == {(1,), (2,), (3,)}
    assert {flow for flow, _ in mill.ran()[3:]} == {"news", "feedback"}
    mill.now += DAY  # nothing else comes
    mill.keep(mill.due()[0])
    assert mill.rows("feedback") == {(1,), (2,), (3,), (4,)}
    assert mill.due() == []
    mill.close()


def test_what_is_to_be_looked_at_again_is_not_put_off_by_what_comes(tmp_path: Path) -> None:
    mill = Mill(declared(target_lag=DAY), tmp_path)
    mill.catalog.set_freshness_deadline("ranked", mill.now + 60)
    mill.insert("clicks", "1,a")
    mill.now += 60
    assert len(mill.due()) == 1
    mill.close()


def test_a_promise_kept_by_another_plan_asks_for_nothing_more(tmp_path: Path) -> None:
    mill = Mill(declared(target_lag={"pages": 0, "clicks": DAY}), tmp_path)
    mill.insert("clicks", "1,a")
    mill.now += 1
    mill.insert("pages", "x,a")
    mill.keep(mill.due()[0])
    mill.now += DAY
    (late,) = mill.due()  # the clicks, which are reflected by now
    done = mill.keep(late)
    assert (done.state, done.stats["plan"]["why"]) == (RunState.FINISHED, "nothing is due")
    mill.close()


def test_what_arrives_while_a_plan_runs_waits_for_the_next(asynchronous: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    mill = asynchronous
    mill.insert("clicks", "1,a")
    mill.insert("pages", "x,a")
    (run,) = mill.due()
    flow = mill.executor.run_flow

    def meanwhile(*given: object, **more: object) -> object:
        done = flow(*given, **more)  # type: ignore[arg-type]
        mill.now += 1
        mill.insert("pages", "late,a")
        return done

    monkeypatch.setattr(Executor, "run_flow", lambda self, *given, **more: meanwhile(*given, **more))
    mill.keep(run)
    assert mill.rows("ranked") == {("x", 1)}
    monkeypatch.undo()
    mill.keep(mill.due()[0])
    assert mill.rows("ranked") == {("x", 1), ("late", 1)}


def test_a_promise_that_history_speaks_against_is_doubted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mill = Mill(declared(target_lag="20s"), tmp_path)
    mill.insert("clicks", "1,a")
    mill.insert("pages", "x,a")
    assert list(explain_infeasible_targets(mill.catalog, mill.workflow)) == []
    commit = type(mill.catalog).commit_run

    def slowly(*given: object, **more: object) -> object:
        mill.now += 12
        return commit(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(type(mill.catalog), "commit_run", slowly)
    mill.keep(request_flow_run(mill.catalog, "ranked"))
    (said,) = explain_infeasible_targets(mill.catalog, mill.workflow)  # by way of pages alone it takes 12 seconds
    assert said.startswith(
        "ranked must reflect clicks within 20 s, but refreshing it and what it derives from has taken"
    )
    assert "about 24.0 s recently" in said
    mill.close()


def of_flows(**promised: object) -> WorkflowSpec:
    """A table made of one that a flow of several tasks writes."""
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
    wf.sql("most", "SELECT max(n) AS n FROM totals", **promised)  # type: ignore[arg-type]
    return wf.declared()


def test_a_flow_of_several_tasks_is_one_step_of_a_plan(tmp_path: Path) -> None:
    mill = Mill(of_flows(target_lag=0), tmp_path)
    mill.insert("orders", "1,a", "11,a", "12,a", "13,b")
    (run,) = mill.due()
    assert mill.keep(run).state is RunState.FINISHED
    assert mill.rows("most") == {(2,)}
    mill.now += 1
    mill.insert("orders", "14,b", "15,b", "2,b")
    mill.keep(mill.due()[0])
    assert mill.rows("most") == {(3,)}
    assert not mill.kept("most").is_late
    mill.close()


def test_a_first_plan_makes_the_state_too_however_large_the_table(
    asynchronous: Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    mill = asynchronous
    monkeypatch.setattr("tidemill.planner.catalog_state.STATE_DROP_GAIN", -1.0)  # as if dropping the state saved a lot
    mill.insert("clicks", "1,a")
    mill.insert("pages", "x,a")
    mill.keep(mill.due()[0])
    assert ("scores", "batch") in mill.ran()
