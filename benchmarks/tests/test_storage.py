"""The figures of the storage benchmark, on small histories."""

from __future__ import annotations

import pytest
from benchmarks.eviction.algorithms import ALGORITHMS, DEFAULT
from benchmarks.eviction.histories import HISTORIES
from benchmarks.storage import BOUND, BUDGETS, _build_full_store, measure, time_decision


@pytest.fixture(scope="module")
def document() -> dict[str, object]:
    return measure(submissions=15, seeds=(1,), datasets=1000, on_progress=lambda _: None)


def test_every_algorithm_is_measured_on_every_history_and_budget(
    document: dict[str, dict[str, dict[str, object]]],
) -> None:
    algorithms = document["algorithms"]
    assert set(algorithms) == {*ALGORITHMS, BOUND}
    for figures in algorithms.values():
        assert {f"budget_{b}pct" for b in BUDGETS} <= set(figures)
        assert len(figures["histories_5pct"]) == len(HISTORIES)  # type: ignore[arg-type]


def test_the_default_is_listed_separately_and_ratios_are_consistent(document: dict[str, dict[str, object]]) -> None:
    default, algorithms = document["default"], document["algorithms"]
    default_figures, bound = algorithms[DEFAULT], algorithms[BOUND]
    assert default["name"] == DEFAULT
    assert default["budget_5pct"] == default_figures["budget_5pct"] >= bound["budget_5pct"] >= 1  # type: ignore[index, operator]
    assert default_figures["over_bound_5pct"] == pytest.approx(
        default_figures["budget_5pct"] / bound["budget_5pct"], abs=0.01
    )  # type: ignore[index]
    assert bound["over_bound_5pct"] == 1  # type: ignore[index]


def test_the_timed_decision_has_the_given_number_of_datasets() -> None:
    _, store = _build_full_store(1000)
    assert len(store.evictable) == 1000
    assert time_decision(1000, rounds=1) >= 0
