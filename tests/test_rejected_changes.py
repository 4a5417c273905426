"""`plan` rejects the changes that `apply` would reject."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import Conflict


def open_project(directory: Path, columns: str) -> Tidemill:
    wf = tm.Workflow("w")
    wf.input("a", columns)
    return Tidemill(directory, Settings(), Project((wf.build_spec(),)))


def test_an_incompatible_type_change_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x\ntea\n")
    with open_project(tmp_path, "x string") as mill:
        mill.apply()
        mill.insert("a", tmp_path / "rows.csv")
    with open_project(tmp_path, "x int") as mill:
        for function in (mill.plan, mill.apply):
            with pytest.raises(Conflict, match="'a' already holds data, so it cannot change column x from STRING to"):
                function()
    with open_project(tmp_path, "x string, y int") as mill:
        assert [step.detail for step in mill.plan()] == ["column y is missing"]
        mill.apply()
        assert mill.plan() == ()
