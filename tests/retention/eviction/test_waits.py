"""Reuse rates estimated from waits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.retention.eviction.recency import RecencyClass
from tidemill.retention.eviction.waits import (
    EDGES,
    LENGTHS,
    POPULARITY_CLASSES,
    WIDTHS,
    WaitStatistics,
    _compute_densities,
    find_popularity_class,
)


def estimate_rate(waits: WaitStatistics, waited: float, kind: int = 0, popularity: int = 0) -> float:
    one = np.array([waited])
    rates = waits.estimate_rates(np.array([kind]), np.array([popularity]), np.zeros(1), one, np.array([False]))
    return float(rates[0])


def record_waits(*lengths: int, kinds: int = 1, kind: int = 0, lost: tuple[int, ...] = ()) -> WaitStatistics:
    waits = WaitStatistics()
    for _ in range(kinds):
        waits.add_kind()
    for length in lengths:
        waits.record_wait(kind, 0, 0, length, demanded=True)
    for length in lost:
        waits.record_wait(kind, 0, 0, length, demanded=False)
    return waits


def test_the_rate_approximates_the_recorded_waits() -> None:
    assert estimate_rate(record_waits(*[10] * 500), 0) == pytest.approx(1 / 10, rel=0.2)
    assert estimate_rate(record_waits(*[2] * 500), 0) == pytest.approx(1 / 2, rel=0.2)


def test_a_wait_longer_than_all_others_has_a_low_rate() -> None:
    waits = record_waits(*[4] * 200, lost=(500,) * 50)
    assert estimate_rate(waits, 100) < 0.1 * estimate_rate(waits, 0)


def test_a_regular_pause_before_a_demand_does_not_lower_the_rate() -> None:
    """Every twenty submissions, like a weekly report: its value is higher in the middle than at the beginning."""
    waits = record_waits(*[20] * 500)
    assert estimate_rate(waits, 17) > estimate_rate(waits, 8) > estimate_rate(waits, 0) > 1 / 40


def test_unfinished_waits_count_as_waiting_time() -> None:
    waits = record_waits(*[5] * 10)
    unfinished, kind, before = np.full(1000, 50.0), np.zeros(1000, dtype=np.int32), np.zeros(1000)
    with_all = waits.estimate_rates(kind, kind, before, unfinished, np.ones(1000, dtype=np.bool_))
    without = waits.estimate_rates(kind, kind, before, unfinished, np.zeros(1000, dtype=np.bool_))
    assert with_all[0] < without[0]


@given(st.integers(1, 300), st.integers(1, 300))
def test_a_wait_across_two_classes_equals_one_in_a_single_class(first: int, second: int) -> None:
    whole, split = record_waits(), record_waits()
    whole.record_wait(0, 0, 0, first + second, demanded=True)
    split.record_wait(0, 0, 0, first, demanded=False)
    split.record_wait(0, 0, first, first + second, demanded=True)
    assert estimate_rate(split, 0) == pytest.approx(estimate_rate(whole, 0))
    assert estimate_rate(split, first) == pytest.approx(estimate_rate(whole, first))


def test_after_a_class_change_the_total_wait_counts() -> None:
    waits = record_waits()
    for _ in range(200):
        waits.record_wait(0, 0, 0, 30, demanded=False)
        waits.record_wait(0, 1, 30, 40, demanded=True)  # never sooner than after 30
    assert estimate_rate(waits, 35, popularity=1) > 2 * estimate_rate(waits, 0, popularity=1)


def test_a_kind_with_few_waits_is_estimated_by_the_others() -> None:
    waits = record_waits(*[3] * 300, kinds=2)
    assert estimate_rate(waits, 0, kind=1) == pytest.approx(estimate_rate(waits, 0, kind=0), rel=0.5)


def test_popularity_and_recency_form_separate_classes() -> None:
    assert {find_popularity_class(n, s) for n in (0.0, 1.0, 2.0, 4.0, 8.0, 16.0) for s in RecencyClass} == {
        *range(POPULARITY_CLASSES)
    }


def test_densities_are_those_of_the_best_retention_time() -> None:
    hazards = np.random.default_rng(1).uniform(0.0001, 0.9, (30, LENGTHS))
    densities = _compute_densities(hazards)
    for cell in range(30):
        for start in range(LENGTHS):
            assert densities[cell, start] == pytest.approx(_find_best_density(hazards[cell], start))


def _find_best_density(hazards: np.ndarray, start: int) -> float:
    demanded, waited, remaining, best = 0.0, 0.0, 1.0, 0.0
    for length in range(start, LENGTHS):
        survival = (1 - hazards[length]) ** WIDTHS[length]
        demanded += remaining * (1 - survival)
        waited += remaining * (1 - survival) / hazards[length]
        remaining *= survival
        best = max(best, demanded / waited)
    return best


def test_length_classes_grow_geometrically_without_gaps() -> None:
    assert sorted(set(EDGES)) == list(EDGES)
    assert EDGES[0] == 1
    assert all(b <= 2 * a for a, b in pairwise(EDGES))
