from __future__ import annotations

import io

import pytest
from tests.cli.program import Program


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
