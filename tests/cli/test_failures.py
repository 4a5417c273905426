"""Exit codes and messages of commands that fail."""

from __future__ import annotations

import pytest
from tests.cli.program import Program


def test_a_command_without_a_project_fails(tidemill: Program) -> None:
    tidemill.project.mkdir()
    result = tidemill("status")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: no tidemill.toml in ")
    assert tidemill("status", "--json").error["kind"] == "ConfigError"


def test_the_project_is_searched_upwards(starter: Program) -> None:
    below = starter.project / "a" / "b"
    below.mkdir(parents=True)
    Program(below, starter.capsys).run_ok("status")


@pytest.mark.parametrize(
    "arguments", [["bogus"], ["runs", "x"], ["runs", "--log"], ["insert", "orders"], ["runs", "--state", "odd"]]
)
def test_wrong_usage_is_rejected(tidemill: Program, arguments: list[str]) -> None:
    result = tidemill(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert result.err.endswith("add --help to see the options\n")


def test_wrong_usage_is_reported_as_json(tidemill: Program) -> None:
    result = tidemill("bogus", "--json")
    assert result.code == 2
    assert "bogus" in result.error["message"]


def test_a_traceback_is_shown_only_on_request(starter: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in starter("runs", 99).err
    assert "Traceback" in starter("--debug", "runs", 99).err
    monkeypatch.setenv("TIDEMILL_DEBUG", "1")
    result = starter("runs", 99)
    assert "Traceback" in result.err
    assert result.err.endswith("error: there is no run 99; there are none yet\n")
    assert result.code == 4


def test_an_unexpected_exception_is_reported_as_a_bug(starter: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("tidemill.catalog.runs.SqlRunCatalog.kill", fail)
    result = starter("kill", 1)
    assert result.code == 1
    place = f"{__file__}:{fail.__code__.co_firstlineno + 1}"
    bug = "this is a bug in Tidemill; --debug shows the traceback"
    assert result.err == f"error: ZeroDivisionError: by zero ({place}); {bug}\n"


def test_secrets_of_the_environment_are_not_shown(starter: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILL_API_TOKEN", "hunter2-and-more")
    assert "hunter2" not in starter("--debug", "run", "hunter2-and-more").err
    assert "***" in starter("run", "hunter2-and-more", "--json").error["message"]
