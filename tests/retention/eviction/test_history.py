"""Demands and reuse rates estimated from submissions."""

from __future__ import annotations

from random import Random

import pytest
from benchmarks.eviction.histories import HISTORIES
from benchmarks.eviction.replay import find_demands

from tidemill.retention.eviction.history import HALF_LIFE, ProducedDataset, SubmissionHistory
from tidemill.retention.eviction.two_sided import estimate_reuse_rates


def build_dataset(name: str, *parents: str, kind: str = "k") -> ProducedDataset:
    return ProducedDataset(name, parents, kind, 1.0, 1)


A, B, C = build_dataset("a"), build_dataset("b", "a"), build_dataset("c", "a")


def test_a_new_child_of_a_computed_dataset_is_a_demand() -> None:
    history = SubmissionHistory()
    history.record_submission("s", [A, B])
    assert history.demands[0] == 0  # the dataset itself was new
    history.record_submission("s", [A, B])
    assert history.demands[0] == 0  # there is nothing to compute
    history.record_submission("s", [A, C])
    assert (history.demands[0], history.demanded_at[0]) == (1, 3)


def test_a_demand_counts_half_after_its_half_life() -> None:
    history = SubmissionHistory()
    history.record_submission("s", [A])
    history.record_submission("s", [A, B])
    history.now += HALF_LIFE - 1
    history.record_submission("s", [A, C])
    assert history.demands[0] == pytest.approx(1.5)


def test_the_rate_is_higher_after_more_and_later_demands_and_in_the_latest_graph() -> None:
    history = SubmissionHistory()
    history.record_submission("s", [build_dataset("often"), build_dataset("once"), build_dataset("never")])
    history.record_submission("s", [build_dataset("often"), build_dataset("once"), build_dataset("x", "often", "once")])
    history.record_submission("s", [build_dataset("often"), build_dataset("y", "often")])
    rates = dict(zip(history.identities, estimate_reuse_rates(history), strict=True))
    assert rates["often"] > rates["once"] > rates["never"]


def test_a_dataset_outside_the_latest_graph_is_rated_by_its_kind() -> None:
    def estimate_rate(returns: bool) -> float:
        history = SubmissionHistory()
        for n in range(20):
            history.record_submission("s", [build_dataset("a") if returns and n % 2 else build_dataset(f"a{n}")])
        history.record_submission("s", [build_dataset("other", kind="o")])
        return float(estimate_reuse_rates(history)[history.numbers["a18"]])

    assert estimate_rate(returns=True) > estimate_rate(returns=False)


@pytest.mark.parametrize("name", HISTORIES)
def test_the_clairvoyant_algorithm_knows_exactly_the_future_demands(name: str) -> None:
    submissions = HISTORIES[name](Random(3), 60)
    history, counted = SubmissionHistory(), dict[str, int]()
    for submission in submissions:
        history.record_submission(submission.series, submission.graph)
        for number, identity in enumerate(history.identities):
            if history.demanded_at[number] == history.now and history.demands[number] > 0:
                counted[identity] = counted.get(identity, 0) + 1
    assert counted == {identity: len(times) for identity, times in find_demands(submissions).items()}
