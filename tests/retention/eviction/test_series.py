"""Submission series: datasets wait for the series that used them before."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tidemill.retention.eviction.series import SubmissionSeries

DATASETS = 12


def build_series(seed: int, submissions: int = 60) -> tuple[SubmissionSeries, dict[int, set[str]], list[str]]:
    """Random series submit random datasets; returns the series of each dataset and the order of submissions."""
    random, series = Random(seed), SubmissionSeries()
    members: dict[int, set[str]] = {n: set() for n in range(DATASETS)}
    order = []
    for _ in range(submissions):
        name = random.choice("abbcccc")
        order.append(name)
        number = series.record_submission(name)
        for dataset in random.sample(range(DATASETS), 2):
            series.add_member(dataset, number)
            members[dataset].add(name)
    return series, members, order


@pytest.mark.parametrize("seed", range(5))
def test_a_dataset_counts_the_submissions_of_its_series(seed: int) -> None:
    series, members, order = build_series(seed)
    expected = [sum(order.count(name) for name in members[n]) for n in range(DATASETS)]
    assert series.count_all_submissions(DATASETS).tolist() == expected
    assert [series.count_submissions(n) for n in range(DATASETS) if members[n]] == [w for w in expected if w]


def test_a_member_is_added_once() -> None:
    series = SubmissionSeries()
    number = series.record_submission("a")
    series.record_submission("a")
    assert series.add_member(0, number) == 2.0
    assert series.add_member(0, number) == 0.0


def test_a_frequent_series_has_a_high_rate() -> None:
    series = SubmissionSeries()
    for n in range(200):
        number = series.record_submission("often" if n % 5 else f"seldom {n % 4}")
        series.add_member(number, number)
    rates = series.estimate_rates(5)
    assert rates.sum() == pytest.approx(1.0, rel=0.7)
    assert rates[1] > 3 * np.delete(rates, 1).max()


def test_a_dataset_of_two_series_has_the_sum_of_their_rates() -> None:
    series = SubmissionSeries()
    members = [series.record_submission(name) for name in "ab"]
    for n in range(40):
        series.record_submission("ab"[n % 2])
    series.add_member(0, members[0])
    series.add_member(1, members[1])
    for number in members:
        series.add_member(2, number)
    rates = series.estimate_rates(3)
    assert rates[2] == pytest.approx(rates[0] + rates[1])
