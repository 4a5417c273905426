"""The program as a whole: its commands, its help and its start."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature

import pytest
from tests.cli.program import Program

from tidemill import __version__
from tidemill.cli.program import CHANGES

COMMANDS = (
    *("init", "doctor", "plan", "apply", "insert", "run", "kill", "status", "flows", "channels", "blocks"),
    *("trace", "lineage", "runs", "events", "read", "compact", "gc"),
)


def test_the_version_is_printed(tidemill: Program) -> None:
    assert tidemill.run_ok("--version").out == f"tidemill {__version__}\n"


def test_help_lists_every_command(tidemill: Program) -> None:
    lines = tidemill.run_ok().out.splitlines()
    listed = [line.split()[1] for line in lines if line.startswith("│ ") and line[2:3].isalpha()]
    assert set(COMMANDS) <= set(listed)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_offers_json(tidemill: Program, command: str) -> None:
    help_text = tidemill.run_ok(command, "--help").out
    assert "--json" in help_text


def test_the_program_starts_without_spark_and_databases() -> None:
    code = "import sys, tidemill.cli; print([m for m in ('pyspark', 'sqlalchemy', 'pyarrow') if m in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"


def test_a_closed_output_pipe_is_no_error(starter: Program) -> None:
    code = f"from tidemill.cli import main; main(['--project', {str(starter.project)!r}, 'events', '--json'])"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_every_audited_command_opens_the_project() -> None:
    """The audit log is in the project's catalog."""
    assert [f.__name__ for f in CHANGES if "mill" not in signature(f).parameters] == []
