"""The verdict on a live server with two policies."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.staleness import FIRST, SECOND, Phase, _summarize
from benchmarks.tests.conftest import Bench


def summarize(first: float, second: float, predicted: float) -> dict[str, Any]:
    phases = [Phase(policy, 0.0, 1.0, staleness, 0.5, 3) for policy, staleness in ((FIRST, first), (SECOND, second))]
    return _summarize(phases, {FIRST: predicted, SECOND: 1.0}, 1.0)


@pytest.mark.parametrize(
    ("first", "second", "predicted", "verdicts"),
    [
        (150.0, 100.0, 1.4, [True, True]),
        (100.0, 150.0, 1.2, [False, True]),  # the policies swapped
        (100.0, 100.0, 1.0, [False, True]),
        (120.0, 100.0, 1.2, [False, True]),  # the difference between two sessions
        (126.0, 100.0, 1.2, [True, True]),
        (150.0, 100.0, 3.1, [True, False]),
        (450.0, 100.0, 2.0, [True, False]),
    ],
)
def test_the_verdict_can_fail(first: float, second: float, predicted: float, verdicts: list[bool]) -> None:
    document = summarize(first, second, predicted)
    assert [claim["holds"] for claim in document["claims"]] == verdicts
    assert document["holds"] == all(verdicts)
    assert document["parameters"]["arrivals"]


def test_a_changed_verdict_gives_an_exit_code(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    document = summarize(100.0, 100.0, 1.0)
    monkeypatch.setattr("benchmarks.commands.measure_staleness", lambda *_, **__: document)
    ended = bench("staleness", "--json")
    assert (ended.code, ended.document["holds"]) == (1, False)
    assert "not as declared: on a live server" in ended.err
    assert bench("staleness", "--seconds", 5, "--json").code == 0  # it is not compared with the declaration
    document = summarize(150.0, 100.0, 1.5)
    assert bench("staleness", "--json").code == 0


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("command", ["commands.isolation", "load_commands.endurance", "load_commands.large-catalog"])
def test_a_missed_goal_gives_an_exit_code(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, command: str, holds: bool
) -> None:
    module, name = command.split(".")
    measure = f"benchmarks.{module}.measure_{name.replace('-', '_')}"
    monkeypatch.setattr(measure, lambda *_, **__: {"goals": [], "holds": holds})
    assert bench(name, "--json").code == (0 if holds else 1)
