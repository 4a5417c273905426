"""The demonstration from nothing: a project of its own on embedded defaults."""

from __future__ import annotations

from pathlib import Path

from tidemill.app.project import load_project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.demo.story import Report, Tell, play


def demonstrate(directory: Path, *, batches: int, size: int, tell: Tell) -> Report:
    """Play the demonstration in a directory that holds no project yet."""
    project = load_project(Path(__file__).parent, ["workflow.py"])
    with Tidemill(directory, Settings(), project) as mill:
        return play(mill, directory, count=batches, size=size, tell=tell)
