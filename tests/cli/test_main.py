"""The program as such: what it offers, and how quickly."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.cli.program import Program

from tidemill import __version__

COMMANDS = (
    *("init", "doctor", "plan", "apply", "insert", "run", "kill", "status", "flows", "channels", "blocks"),
    *("trace", "lineage", "runs", "events", "read", "compact", "gc"),
)


def test_the_version(tidemill: Program) -> None:
    assert tidemill.well("--version").out == f"tidemill {__version__}\n"


def test_help_lists_every_command(tidemill: Program) -> None:
    lines = tidemill.well().out.splitlines()
    listed = [line.split()[1] for line in lines if line.startswith("│ ") and line[2:3].isalpha()]
    assert set(COMMANDS) <= set(listed)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_offers_json(tidemill: Program, command: str) -> None:
    explained = tidemill.well(command, "--help").out
    assert "--json" in explained


def test_the_program_starts_without_spark_and_databases() -> None:
    code = "import sys, tidemill.cli; print([m for m in ('pyspark', 'sqlalchemy', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_reader_that_goes_away_is_no_error(started: Program) -> None:
    code = f"from tidemill.cli import main; main(['--project', {str(started.project)!r}, 'events', '--json'])"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
