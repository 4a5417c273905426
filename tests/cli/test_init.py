from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tests.cli.program import Program

from tidemill.app.project import load_project
from tidemill.app.settings import SETTINGS_FILE, Settings

MADE = {SETTINGS_FILE, "workflow.py", "orders.csv", ".gitignore"}


def test_makes_a_project_whose_workflow_loads(tidemill: Program) -> None:
    told = tidemill.well("init", tidemill.project).out
    assert {p.name for p in tidemill.project.iterdir()} == MADE
    assert (tidemill.project / ".gitignore").read_text() == ".tidemill/\n"
    project = load_project(tidemill.project, ["workflow.py"])
    assert project.find_binding("report") is not None
    assert told.endswith("tidemill apply\n  tidemill insert orders orders.csv\n  tidemill run report\n")


def test_the_settings_shown_are_the_defaults(tidemill: Program) -> None:
    tidemill.well("init", tidemill.project)
    text = (tidemill.project / SETTINGS_FILE).read_text()
    assert Settings.model_validate(tomllib.loads(text)) == Settings()
    stated = re.sub(r"^# (?=[a-z]+ = )", "", text, flags=re.MULTILINE)
    assert stated != text
    assert Settings.model_validate(tomllib.loads(stated)) == Settings()


def test_the_directory_at_hand_is_the_default(tidemill: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    tidemill.project.mkdir()
    monkeypatch.chdir(tidemill.project)
    document = tidemill.json("init")
    assert {Path(p).name for p in document["created"]} == MADE
    assert document["next"][0] == "tidemill apply"


def test_overwrites_nothing(tidemill: Program) -> None:
    tidemill.project.mkdir()
    (tidemill.project / "workflow.py").write_text("mine")
    ended = tidemill("init", tidemill.project)
    assert (ended.code, ended.out) == (2, "")
    assert "already has workflow.py" in ended.err
    assert [p.name for p in tidemill.project.iterdir()] == ["workflow.py"]
    assert (tidemill.project / "workflow.py").read_text() == "mine"


def test_says_where_it_cannot_write(tidemill: Program) -> None:
    tidemill.project.write_text("a file")
    ended = tidemill("init", tidemill.project / "below")
    assert ended.code == 2
    assert "cannot write" in ended.err
