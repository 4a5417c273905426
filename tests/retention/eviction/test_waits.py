"""What is learnt from waits."""

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


def rate(waits: WaitStatistics, waited: float, kind: int = 0, popularity: int = 0) -> float:
    one = np.array([waited])
    found = waits.estimate_rates(np.array([kind]), np.array([popularity]), np.zeros(1), one, np.array([False]))
    return float(found[0])


def seen(*lengths: int, kinds: int = 1, kind: int = 0, lost: tuple[int, ...] = ()) -> WaitStatistics:
    waits = WaitStatistics()
    for _ in range(kinds):
        waits.add_kind()
    for length in lengths:
        waits.record_wait(kind, 0, 0, length, demanded=True)
    for length in lost:
        waits.record_wait(kind, 0, 0, length, demanded=False)
    return waits


def test_the_rate_comes_near_what_happened() -> None:
    assert rate(seen(*[10] * 500), 0) == pytest.approx(1 / 10, rel=0.2)
    assert rate(seen(*[2] * 500), 0) == pytest.approx(1 / 2, rel=0.2)


def test_who_has_waited_longer_than_all_others_will_hardly_be_demanded() -> None:
    waits = seen(*[4] * 200, lost=(500,) * 50)
    assert rate(waits, 100) < 0.1 * rate(waits, 0)


def test_a_lull_before_a_demand_that_always_comes_does_not_count_as_the_end() -> None:
    """Every twenty submissions, like a weekly report: in the middle it is worth more than at the beginning."""
    waits = seen(*[20] * 500)
    assert rate(waits, 17) > rate(waits, 8) > rate(waits, 0) > 1 / 40


def test_waits_that_last_count_as_time() -> None:
    waits = seen(*[5] * 10)
    lasting, kind, before = np.full(1000, 50.0), np.zeros(1000, dtype=np.int32), np.zeros(1000)
    with_all = waits.estimate_rates(kind, kind, before, lasting, np.ones(1000, dtype=np.bool_))
    without = waits.estimate_rates(kind, kind, before, lasting, np.zeros(1000, dtype=np.bool_))
    assert with_all[0] < without[0]


@given(st.integers(1, 300), st.integers(1, 300))
def test_a_wait_in_two_moods_takes_as_long_as_one_in_one(first: int, second: int) -> None:
    whole, parted = seen(), seen()
    whole.record_wait(0, 0, 0, first + second, demanded=True)
    parted.record_wait(0, 0, 0, first, demanded=False)
    parted.record_wait(0, 0, first, first + second, demanded=True)
    assert rate(parted, 0) == pytest.approx(rate(whole, 0))
    assert rate(parted, first) == pytest.approx(rate(whole, first))


def test_what_changes_its_mood_is_judged_by_how_long_it_has_waited_in_all() -> None:
    waits = seen()
    for _ in range(200):
        waits.record_wait(0, 0, 0, 30, demanded=False)
        waits.record_wait(0, 1, 30, 40, demanded=True)  # never sooner than after 30
    assert rate(waits, 35, popularity=1) > 2 * rate(waits, 0, popularity=1)


def test_a_kind_of_which_little_is_known_is_judged_by_the_others() -> None:
    waits = seen(*[3] * 300, kinds=2)
    assert rate(waits, 0, kind=1) == pytest.approx(rate(waits, 0, kind=0), rel=0.5)


def test_popularity_and_standing_make_moods_of_their_own() -> None:
    assert {find_popularity_class(n, s) for n in (0.0, 1.0, 2.0, 4.0, 8.0, 16.0) for s in RecencyClass} == {
        *range(POPULARITY_CLASSES)
    }


def test_densities_are_those_of_holding_on_for_the_best_time() -> None:
    hazards = np.random.default_rng(1).uniform(0.0001, 0.9, (30, LENGTHS))
    found = _compute_densities(hazards)
    for cell in range(30):
        for start in range(LENGTHS):
            assert found[cell, start] == pytest.approx(_best(hazards[cell], start))


def _best(hazards: np.ndarray, start: int) -> float:
    demanded, held, left, best = 0.0, 0.0, 1.0, 0.0
    for at in range(start, LENGTHS):
        stays = (1 - hazards[at]) ** WIDTHS[at]
        demanded += left * (1 - stays)
        held += left * (1 - stays) / hazards[at]
        left *= stays
        best = max(best, demanded / held)
    return best


def test_lengths_grow_by_halves_and_leave_no_gap() -> None:
    assert sorted(set(EDGES)) == list(EDGES)
    assert EDGES[0] == 1
    assert all(b <= 2 * a for a, b in pairwise(EDGES))
