"""A project's code is traced when it is loaded; later changes of its globals change no flow."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import ConfigError
from tidemill.model import code

WORKFLOW = """
import tidemill as tm

MEMO = {}
MODEL = None
FACTOR = 2

wf = tm.Workflow("w")
wf.input("a", "x int")


@wf.task
def scored(a: tm.New) -> tm.Delta:
    global MODEL
    MODEL = MODEL or object()
    MEMO[FACTOR] = 1
    return a
"""


def open_project(directory: Path, text: str = WORKFLOW) -> Tidemill:
    (directory / "workflow.py").write_text(text)
    return Tidemill(directory, Settings(workflows=("workflow.py",)))


def get_module(mill: Tidemill) -> ModuleType:
    (module,) = mill.project.modules
    return module


def test_later_changes_of_globals_change_no_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_project(tmp_path) as mill:
        mill.apply()
        get_module(mill).MEMO["x"] = 1
        get_module(mill).MODEL = object()
        traces: list[object] = []
        monkeypatch.setattr(code, "_trace_callable", traces.append)
        assert mill.plan() == ()
        assert mill.workflows.find_applied_binding("scored").name == "scored"
        assert traces == [], "the code is not traced again"


def test_a_changed_constant_changes_the_flow_when_code_is_reloaded(tmp_path: Path) -> None:
    with open_project(tmp_path) as mill:
        mill.apply()
    with open_project(tmp_path, WORKFLOW.replace("FACTOR = 2", "FACTOR = 30")) as mill:
        with pytest.raises(ConfigError, match="was changed since it was registered"):
            mill.workflows.find_applied_binding("scored")
        assert [(step.action, step.name) for step in mill.plan()] == [("change", "scored")]
    with open_project(tmp_path, WORKFLOW) as mill:
        assert mill.plan() == ()
