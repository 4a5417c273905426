"""Datasets wait for those who asked for them before."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tidemill.retention.eviction.series import SubmissionSeries

DATASETS = 12


def lived(seed: int, submissions: int = 60) -> tuple[SubmissionSeries, dict[int, set[str]], list[str]]:
    """Random series submit random datasets; what was part of what, and who submitted when."""
    random, series = Random(seed), SubmissionSeries()
    homes: dict[int, set[str]] = {n: set() for n in range(DATASETS)}
    order = []
    for _ in range(submissions):
        name = random.choice("abbcccc")
        order.append(name)
        number = series.record_submission(name)
        for dataset in random.sample(range(DATASETS), 2):
            series.add_member(dataset, number)
            homes[dataset].add(name)
    return series, homes, order


@pytest.mark.parametrize("seed", range(5))
def test_what_passed_is_what_its_homes_submitted(seed: int) -> None:
    series, homes, order = lived(seed)
    wanted = [sum(order.count(name) for name in homes[n]) for n in range(DATASETS)]
    assert series.count_all_submissions(DATASETS).tolist() == wanted
    assert [series.count_submissions(n) for n in range(DATASETS) if homes[n]] == [w for w in wanted if w]


def test_joining_twice_adds_once() -> None:
    series = SubmissionSeries()
    home = series.record_submission("a")
    series.record_submission("a")
    assert series.add_member(0, home) == 2.0
    assert series.add_member(0, home) == 0.0


def test_who_submits_often_will_again() -> None:
    series = SubmissionSeries()
    for n in range(200):
        home = series.record_submission("often" if n % 5 else f"seldom {n % 4}")
        series.add_member(home, home)
    rates = series.estimate_rates(5)
    assert rates.sum() == pytest.approx(1.0, rel=0.7)
    assert rates[1] > 3 * np.delete(rates, 1).max()


def test_a_dataset_of_two_homes_is_wanted_by_both() -> None:
    series = SubmissionSeries()
    homes = [series.record_submission(name) for name in "ab"]
    for n in range(40):
        series.record_submission("ab"[n % 2])
    series.add_member(0, homes[0])
    series.add_member(1, homes[1])
    for home in homes:
        series.add_member(2, home)
    rates = series.estimate_rates(3)
    assert rates[2] == pytest.approx(rates[0] + rates[1])
