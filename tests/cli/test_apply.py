from __future__ import annotations

import io

import pytest
from tests.cli.program import FakeEngine, Program


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.app.lazy_imports.SparkEngine", FakeEngine)


class Terminal(io.StringIO):
    """Standard input that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_plan_shows_the_changes_of_apply(tidemill: Program) -> None:
    tidemill.run_ok("init", tidemill.project)
    steps = tidemill.json("plan")["steps"]
    assert [(s["action"], s["what"], s["name"]) for s in steps] == [
        ("add", "channel", "orders"),
        ("add", "channel", "large_orders"),
        ("add", "channel", "city_totals"),
        ("add", "flow", "report"),
    ]
    assert tidemill.json("plan")["steps"] == steps
    assert "large_orders" in tidemill.run_ok("plan").out


def test_plan_reports_changes_by_its_exit_code(tidemill: Program) -> None:
    tidemill.run_ok("init", tidemill.project)
    assert tidemill("plan", "--exit-code").code == 2
    tidemill.run_ok("apply", "--yes")
    assert tidemill.run_ok("plan", "--exit-code").out == "nothing to change\n"


def test_apply_makes_the_planned_changes(tidemill: Program) -> None:
    tidemill.run_ok("init", tidemill.project)
    planned = tidemill.json("plan")
    assert tidemill.json("apply")["steps"] == planned["steps"]
    assert tidemill.json("plan") == {"steps": [], "infeasible_targets": []}
    assert tidemill.run_ok("apply").out == "nothing to change\n"


def test_apply_shows_the_changes_without_a_terminal(tidemill: Program) -> None:
    tidemill.run_ok("init", tidemill.project)
    out = tidemill.run_ok("apply").out
    assert "add   flow" in out
    assert out.endswith("applied 4 changes\n")


@pytest.mark.parametrize(("typed", "code", "remaining"), [("y\n", 0, 0), ("n\n", 1, 4)])
def test_apply_asks_for_confirmation_at_a_terminal(
    tidemill: Program, monkeypatch: pytest.MonkeyPatch, typed: str, code: int, remaining: int
) -> None:
    tidemill.run_ok("init", tidemill.project)
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert tidemill("apply").code == code
    assert len(tidemill.json("plan")["steps"]) == remaining


def test_a_change_of_a_task_is_shown(starter: Program) -> None:
    workflow = starter.project / "workflow.py"
    workflow.write_text(workflow.read_text().replace("amount >= 100", "amount >= 200"))
    (step,) = starter.json("plan")["steps"]
    assert (step["action"], step["what"], step["name"]) == ("change", "flow", "report")


def test_a_mistake_in_the_workflow_names_file_and_line(starter: Program) -> None:
    workflow = starter.project / "workflow.py"
    workflow.write_text("import tidemill as tm\nwf = tm.Workflow('w')\nwf.input('a', 'no schema at all')\n")
    result = starter("plan")
    assert result.code == 3
    assert result.err.startswith(f"error: {workflow}:3: ")


def test_plan_and_apply_warn_of_infeasible_targets(tidemill: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    tidemill.run_ok("init", tidemill.project)
    function = "tidemill.app.wiring.explain_infeasible_targets"
    monkeypatch.setattr(function, lambda _catalog, _workflow: iter(["it cannot be met"]))
    assert "warning: it cannot be met" in tidemill.run_ok("plan").out
    assert "warning: it cannot be met" in tidemill.run_ok("apply", "--yes").out
    assert tidemill.json("apply")["infeasible_targets"] == ["it cannot be met"]


TRIGGERED = """
import tidemill as tm

wf = tm.Workflow("shop")
wf.input("orders", "id int")

@wf.task(triggers=[tm.all_of({triggers})])
def copied(orders: tm.New) -> tm.Delta:
    return orders
"""


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ('tm.on("oders")', "waits for channel 'oders', which no workflow declares, and would never run; did you"),
        ('tm.after("other_flow")', "waits for flow 'other_flow', which no workflow declares"),
        ('tm.cron("every day")', "'every day' in time zone 'UTC' is not a valid cron schedule: Wrong number of fields"),
        ('tm.cron("0 3 * * *", "Europe/Nowhere")', "is not a valid cron schedule"),
    ],
)
def test_a_trigger_that_never_fires_is_rejected_with_its_line(tidemill: Program, trigger: str, message: str) -> None:
    tidemill.run_ok("init", tidemill.project)
    file = tidemill.project / "workflow.py"
    file.write_text(TRIGGERED.replace("{triggers}", f'tm.on("orders"), {trigger}'))
    for command in ("plan", "apply"):
        rejected = tidemill(command)
        assert rejected.code == 3
        assert message in " ".join(rejected.err.split())
        assert f"{file}:7" in rejected.err.replace("\n", "")


def test_a_trigger_may_refer_to_another_workflow(tidemill: Program) -> None:
    tidemill.run_ok("init", tidemill.project)
    tidemill.run_ok("apply", "--yes")
    file = tidemill.project / "workflow.py"
    text = TRIGGERED.replace('"shop"', '"other"').replace("orders", "others")
    file.write_text(text.replace("{triggers}", 'tm.on("city_totals"), tm.after("report")'))
    tidemill.run_ok("apply", "--yes")
