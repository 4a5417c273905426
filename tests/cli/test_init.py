from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tests.cli.program import Program

from tidemill.app.project import load_project
from tidemill.app.settings import SETTINGS_FILE, Settings

PROJECT_FILES = {SETTINGS_FILE, "workflow.py", "orders.csv", ".gitignore"}


def test_init_creates_a_project_whose_workflow_loads(tidemill: Program) -> None:
    out = tidemill.run_ok("init", tidemill.project).out
    assert {p.name for p in tidemill.project.iterdir()} == PROJECT_FILES
    assert (tidemill.project / ".gitignore").read_text() == ".tidemill/\n"
    project = load_project(tidemill.project, ["workflow.py"])
    assert [b.name for w in project.workflows for b in w.bindings] == ["report"]
    assert out.endswith("tidemill apply\n  tidemill insert orders orders.csv\n  tidemill run report\n")


def test_the_settings_shown_are_the_defaults(tidemill: Program) -> None:
    tidemill.run_ok("init", tidemill.project)
    text = (tidemill.project / SETTINGS_FILE).read_text()
    assert Settings.model_validate(tomllib.loads(text)) == Settings()
    uncommented = re.sub(r"^# (?=[a-z_]+ = )", "", text, flags=re.MULTILINE)
    assert uncommented != text
    assert Settings.model_validate(tomllib.loads(uncommented)) == Settings()


def test_the_current_directory_is_the_default(tidemill: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    tidemill.project.mkdir()
    monkeypatch.chdir(tidemill.project)
    document = tidemill.json("init")
    assert {Path(p).name for p in document["created"]} == PROJECT_FILES
    assert document["next"][0] == "tidemill apply"


def test_init_overwrites_no_file(tidemill: Program) -> None:
    tidemill.project.mkdir()
    (tidemill.project / "workflow.py").write_text("mine")
    result = tidemill("init", tidemill.project)
    assert (result.code, result.out) == (2, "")
    assert "already has workflow.py" in result.err
    assert [p.name for p in tidemill.project.iterdir()] == ["workflow.py"]
    assert (tidemill.project / "workflow.py").read_text() == "mine"


def test_init_reports_a_directory_that_it_cannot_write(tidemill: Program) -> None:
    tidemill.project.write_text("a file")
    result = tidemill("init", tidemill.project / "below")
    assert result.code == 2
    assert "cannot write" in result.err
