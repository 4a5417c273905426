"""The commands of each example work: apply its workflows, serve them, and feed them with its simulator."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.docs.page_project import PageProject
from tests.docs.pages import ROOT, Command
from tests.marks import long

from tidemill import Client


@pytest.mark.parametrize(
    ("example", "options", "channel"),
    [
        long("search_engine", ["--rounds", "1", "--seconds", "0"], "clicks"),
        long("supply_chain", ["--seconds", "1"], "orders"),
        long("sky_survey", ["--seconds", "1"], "annotations"),
    ],
)
def test_an_example_is_applied_served_and_fed(
    example: str, options: list[str], channel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    directory = tmp_path / example
    shutil.copytree(ROOT / "examples" / example, directory)
    project = PageProject(directory, monkeypatch)
    try:
        project.run_command(Command(("tidemill", "apply", "--yes"), None, in_background=False))
        project.run_command(Command(("tidemill", "up"), None, in_background=True))
        simulator = [sys.executable, "simulate.py", "--url", project.url, *options]
        subprocess.run(simulator, check=True, timeout=120)
        with Client(project.url) as client:
            assert client.channel(channel).head > 0
    finally:
        project.close()
