from __future__ import annotations

import io

import pytest
from tests.cli.program import FakeEngine, Program


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.app.wiring.SparkEngine", FakeEngine)


class Terminal(io.StringIO):
    """A keyboard at which somebody types."""

    def isatty(self) -> bool:
        return True


def test_plan_shows_what_apply_would_do(tidemill: Program) -> None:
    tidemill.well("init", tidemill.project)
    steps = tidemill.json("plan")["steps"]
    assert [(s["action"], s["what"], s["name"]) for s in steps] == [
        ("add", "channel", "orders"),
        ("add", "channel", "large_orders"),
        ("add", "channel", "city_totals"),
        ("add", "flow", "report"),
    ]
    assert tidemill.json("plan")["steps"] == steps
    assert "large_orders" in tidemill.well("plan").out


def test_plan_can_tell_a_script_that_there_are_changes(tidemill: Program) -> None:
    tidemill.well("init", tidemill.project)
    assert tidemill("plan", "--exit-code").code == 2
    tidemill.well("apply", "--yes")
    assert tidemill.well("plan", "--exit-code").out == "nothing to change\n"


def test_apply_does_what_plan_showed(tidemill: Program) -> None:
    tidemill.well("init", tidemill.project)
    planned = tidemill.json("plan")
    assert tidemill.json("apply")["steps"] == planned["steps"]
    assert tidemill.json("plan") == {"steps": [], "doubts": []}
    assert tidemill.well("apply").out == "nothing to change\n"


def test_apply_shows_the_difference_where_nobody_can_be_asked(tidemill: Program) -> None:
    tidemill.well("init", tidemill.project)
    out = tidemill.well("apply").out
    assert "add   flow" in out
    assert out.endswith("applied 4 changes\n")


@pytest.mark.parametrize(("typed", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 4)])
def test_apply_asks_at_a_terminal(
    tidemill: Program, monkeypatch: pytest.MonkeyPatch, typed: str, code: int, left: int
) -> None:
    tidemill.well("init", tidemill.project)
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert tidemill("apply").code == code
    assert len(tidemill.json("plan")["steps"]) == left


def test_a_change_of_a_task_is_shown(started: Program) -> None:
    workflow = started.project / "workflow.py"
    workflow.write_text(workflow.read_text().replace("amount >= 100", "amount >= 200"))
    (step,) = started.json("plan")["steps"]
    assert (step["action"], step["what"], step["name"]) == ("change", "flow", "report")


def test_a_mistake_in_the_workflow_names_file_and_line(started: Program) -> None:
    workflow = started.project / "workflow.py"
    workflow.write_text("import tidemill as tm\nwf = tm.Workflow('w')\nwf.input('a', 'no schema at all')\n")
    ended = started("plan")
    assert ended.code == 3
    assert ended.err.startswith(f"error: {workflow}:3: ")


def test_apply_tells_what_plan_doubts(tidemill: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    tidemill.well("init", tidemill.project)
    told = "tidemill.app.wiring.explain_infeasible_targets"
    monkeypatch.setattr(told, lambda _catalog, _workflow: iter(["it cannot be kept"]))
    assert "warning: it cannot be kept" in tidemill.well("plan").out
    assert "warning: it cannot be kept" in tidemill.well("apply", "--yes").out
    assert tidemill.json("apply")["doubts"] == ["it cannot be kept"]


TRIGGERED = """
import tidemill as tm

wf = tm.Workflow("shop")
wf.input("orders", "id int")

@wf.task(triggers=[tm.all_of({triggers})])
def copied(orders: tm.New) -> tm.Delta:
    return orders
"""


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        ('tm.on("oders")', "waits for channel 'oders', which no workflow declares, and would never run; did you"),
        ('tm.after("other_flow")', "waits for flow 'other_flow', which no workflow declares"),
        ('tm.cron("every day")', "'every day' in time zone 'UTC' is not a valid cron schedule: Wrong number of fields"),
        ('tm.cron("0 3 * * *", "Europe/Nowhere")', "is not a valid cron schedule"),
    ],
)
def test_a_trigger_that_never_fires_is_refused_with_the_users_line(tidemill: Program, trigger: str, said: str) -> None:
    tidemill.well("init", tidemill.project)
    file = tidemill.project / "workflow.py"
    file.write_text(TRIGGERED.replace("{triggers}", f'tm.on("orders"), {trigger}'))
    for command in ("plan", "apply"):
        refused = tidemill(command)
        assert refused.code == 3
        assert said in " ".join(refused.err.split())
        assert f"{file}:7" in refused.err.replace("\n", "")


def test_a_trigger_may_wait_for_what_another_workflow_has_declared(tidemill: Program) -> None:
    tidemill.well("init", tidemill.project)
    tidemill.well("apply", "--yes")
    file = tidemill.project / "workflow.py"
    text = TRIGGERED.replace('"shop"', '"other"').replace("orders", "others")
    file.write_text(text.replace("{triggers}", 'tm.on("city_totals"), tm.after("report")'))
    tidemill.well("apply", "--yes")
