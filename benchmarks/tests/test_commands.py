"""The bench commands: what they pass on and how they print it; the measurements have tests of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.tests.conftest import Bench

JOINED = {"rows": 10, "rounds": 1, "crossover": 0.25, "points": [{"delta": 0.1, "full_s": 1.5, "equal": True}]}
KEPT = {
    "default": {"name": "lru", "budget_5pct": 2.0},
    "algorithms": {"lru": {"budget_5pct": 2.0, "histories_5pct": {"drift": 3.0}}},
    "decision_s_100k": 0.1,
}
QUERIED = {"scale": 0.01, "points": [{"query": 3, "variant": "batch", "forced_variant": None, "equal": True}]}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What was asked of the measurements, which answer at once."""
    seen: dict[str, Any] = {}

    def answer(document: dict[str, Any]) -> Any:
        def measure(directory: Path, **wanted: Any) -> dict[str, Any]:
            assert directory.is_dir()
            seen.update(wanted)
            return document

        return measure

    monkeypatch.setattr("benchmarks.commands.measure_incremental", answer({"pages": 100, "equal": True}))
    monkeypatch.setattr("benchmarks.commands.measure_join", answer(JOINED))
    monkeypatch.setattr("benchmarks.commands.measure_queries", answer(QUERIED))
    monkeypatch.setattr("benchmarks.commands.measure_storage", lambda **wanted: seen.update(wanted) or KEPT)
    return seen


def test_incremental_prints_one_line_of_json(bench: Bench, asked: dict[str, Any]) -> None:
    ended = bench.well("incremental", "--pages", 100, "--delta", 0.5, "--variant", "batch", "--json")
    assert ended.out == '{"pages": 100, "equal": true}\n'
    assert (asked["pages"], asked["delta"], asked["variant"]) == (100, 0.5, "batch")


def test_join_prints_the_crossover(bench: Bench, asked: dict[str, Any]) -> None:
    assert bench.json("join") == JOINED
    assert "faster one from about 25.0% new data" in bench.well("join").out


def test_storage_prints_a_line_for_each_algorithm_and_what_the_default_does(
    bench: Bench, asked: dict[str, Any]
) -> None:
    assert bench.json("storage", "--submissions", 20, "--seeds", 2) == KEPT
    assert (asked["submissions"], list(asked["seeds"])) == (20, [1, 2])
    assert bench.well("storage").out.splitlines()[-3:] == [
        "name: lru",
        "budget_5pct: 2.0",
        "decision_s_100k: 0.1",
    ]


def test_queries_prints_a_table_for_documents(bench: Bench, asked: dict[str, Any]) -> None:
    ended = bench.well("queries", "--only", "3, 5,3")
    assert asked["only"] == [3, 5]
    assert ended.out.splitlines() == [
        "| query | variant | forced_variant | equal |",
        "| --- | --- | --- | --- |",
        "| 3 | batch | – | True |",
    ]


@pytest.mark.parametrize("given", ["0", "23", "3,x", "3,,5"])
def test_queries_that_do_not_exist_are_refused(bench: Bench, asked: dict[str, Any], given: str) -> None:
    ended = bench("queries", "--only", given)
    assert ended.code == 2
    assert "expected numbers from 1 to 22" in ended.err
    assert not asked
