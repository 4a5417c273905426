"""A project's code is looked at when it is loaded, and what it does to its globals later changes no flow."""

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


def opened(directory: Path, text: str = WORKFLOW) -> Tidemill:
    (directory / "workflow.py").write_text(text)
    return Tidemill(directory, Settings(workflows=("workflow.py",)))


def module_of(mill: Tidemill) -> ModuleType:
    (module,) = mill.project.modules
    return module


def test_a_memo_and_a_model_that_is_loaded_late_change_no_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as mill:
        mill.apply()
        module_of(mill).MEMO["x"] = 1
        module_of(mill).MODEL = object()
        walks: list[object] = []
        monkeypatch.setattr(code, "_trace_callable", walks.append)
        assert mill.plan() == ()
        assert mill._get_applied_binding("scored").name == "scored"
        assert walks == [], "later looks compare what is known"


def test_a_changed_constant_changes_the_flow_when_code_is_loaded_anew(tmp_path: Path) -> None:
    with opened(tmp_path) as mill:
        mill.apply()
    with opened(tmp_path, WORKFLOW.replace("FACTOR = 2", "FACTOR = 30")) as mill:
        with pytest.raises(ConfigError, match="was changed since it was registered"):
            mill._get_applied_binding("scored")
        assert [(step.action, step.name) for step in mill.plan()] == [("change", "scored")]
    with opened(tmp_path, WORKFLOW) as mill:
        assert mill.plan() == ()
