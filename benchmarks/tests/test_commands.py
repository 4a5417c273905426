"""The commands: the arguments that they pass, and their output; the measurements have separate tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.tests.conftest import Bench

JOIN_DOCUMENT = {"rows": 10, "rounds": 1, "crossover": 0.25, "points": [{"delta": 0.1, "full_s": 1.5, "equal": True}]}
STORAGE_DOCUMENT = {
    "default": {"name": "lru", "budget_5pct": 2.0},
    "algorithms": {"lru": {"budget_5pct": 2.0, "histories_5pct": {"drift": 3.0}}},
    "decision_s_100k": 0.1,
}
QUERIES_DOCUMENT = {"scale": 0.01, "points": [{"query": 3, "variant": "batch", "forced_variant": None, "equal": True}]}


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments of the measurements, which are replaced by constant results."""
    recorded: dict[str, Any] = {}

    def replace_measurement(document: dict[str, Any]) -> Any:
        def measure(directory: Path, **options: Any) -> dict[str, Any]:
            assert directory.is_dir()
            recorded.update(options)
            return document

        return measure

    monkeypatch.setattr("benchmarks.commands.measure_incremental", replace_measurement({"pages": 100, "equal": True}))
    monkeypatch.setattr("benchmarks.commands.measure_join", replace_measurement(JOIN_DOCUMENT))
    monkeypatch.setattr("benchmarks.commands.measure_queries", replace_measurement(QUERIES_DOCUMENT))
    monkeypatch.setattr(
        "benchmarks.commands.measure_storage", lambda **options: recorded.update(options) or STORAGE_DOCUMENT
    )
    return recorded


def test_incremental_prints_one_line_of_json(bench: Bench, arguments: dict[str, Any]) -> None:
    ended = bench.run_ok("incremental", "--pages", 100, "--delta", 0.5, "--variant", "batch", "--json")
    assert ended.out == '{"pages": 100, "equal": true}\n'
    assert (arguments["pages"], arguments["delta"], arguments["variant"]) == (100, 0.5, "batch")


def test_join_prints_the_crossover(bench: Bench, arguments: dict[str, Any]) -> None:
    assert bench.json("join") == JOIN_DOCUMENT
    assert "faster one from about 25.0% new data" in bench.run_ok("join").out


def test_storage_prints_a_line_for_each_algorithm_and_the_figures_of_the_default(
    bench: Bench, arguments: dict[str, Any]
) -> None:
    assert bench.json("storage", "--submissions", 20, "--seeds", 2) == STORAGE_DOCUMENT
    assert (arguments["submissions"], list(arguments["seeds"])) == (20, [1, 2])
    assert bench.run_ok("storage").out.splitlines()[-3:] == [
        "name: lru",
        "budget_5pct: 2.0",
        "decision_s_100k: 0.1",
    ]


def test_queries_prints_a_markdown_table(bench: Bench, arguments: dict[str, Any]) -> None:
    ended = bench.run_ok("queries", "--only", "3, 5,3")
    assert arguments["only"] == [3, 5]
    assert ended.out.splitlines() == [
        "| query | variant | forced_variant | equal |",
        "| --- | --- | --- | --- |",
        "| 3 | batch | – | True |",
    ]


@pytest.mark.parametrize("numbers", ["0", "23", "3,x", "3,,5"])
def test_unknown_queries_are_rejected(bench: Bench, arguments: dict[str, Any], numbers: str) -> None:
    ended = bench("queries", "--only", numbers)
    assert ended.code == 2
    assert "expected numbers from 1 to 22" in ended.err
    assert not arguments
