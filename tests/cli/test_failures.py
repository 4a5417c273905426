"""How commands end that cannot do their work."""

from __future__ import annotations

import pytest
from tests.cli.program import Program


def test_no_project(tidemill: Program) -> None:
    tidemill.project.mkdir()
    ended = tidemill("status")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: no tidemill.toml in ")
    assert tidemill("status", "--json").error["kind"] == "ConfigError"


def test_the_project_is_searched_upwards(started: Program) -> None:
    below = started.project / "a" / "b"
    below.mkdir(parents=True)
    Program(below, started.capsys).well("status")


@pytest.mark.parametrize(
    "arguments", [["bogus"], ["runs", "x"], ["runs", "--log"], ["insert", "orders"], ["runs", "--state", "odd"]]
)
def test_wrong_usage(tidemill: Program, arguments: list[str]) -> None:
    ended = tidemill(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert ended.err.endswith("add --help to see the options\n")


def test_wrong_usage_as_json(tidemill: Program) -> None:
    ended = tidemill("bogus", "--json")
    assert ended.code == 2
    assert "bogus" in ended.error["message"]


def test_no_traceback_unless_wanted(started: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in started("runs", 99).err
    assert "Traceback" in started("--debug", "runs", 99).err
    monkeypatch.setenv("TIDEMILL_DEBUG", "1")
    ended = started("runs", 99)
    assert "Traceback" in ended.err
    assert ended.err.endswith("error: there is no run 99; there are none yet\n")
    assert ended.code == 4


def test_a_fault_of_ours_is_said_to_be_one(started: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("tidemill.app.wiring.Tidemill.kill", broken)
    ended = started("kill", 1)
    assert ended.code == 1
    assert ended.err == "error: ZeroDivisionError: by zero; this is a bug in Tidemill; --debug shows the traceback\n"
