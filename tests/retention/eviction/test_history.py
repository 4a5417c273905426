"""What is learnt from submissions."""

from __future__ import annotations

from random import Random

import pytest
from benchmarks.eviction.histories import HISTORIES
from benchmarks.eviction.replay import find_demands

from tidemill.retention.eviction.history import HALF_LIFE, ProducedDataset, SubmissionHistory
from tidemill.retention.eviction.two_sided import estimate_reuse_rates


def made(name: str, *parents: str, kind: str = "k") -> ProducedDataset:
    return ProducedDataset(name, parents, kind, 1.0, 1)


A, B, C = made("a"), made("b", "a"), made("c", "a")


def test_a_demand_is_a_child_that_was_never_computed_of_something_that_was() -> None:
    history = SubmissionHistory()
    history.record_submission("s", [A, B])
    assert history.demands[0] == 0  # it was new itself
    history.record_submission("s", [A, B])
    assert history.demands[0] == 0  # nothing is to be computed
    history.record_submission("s", [A, C])
    assert (history.demands[0], history.demanded_at[0]) == (1, 3)


def test_a_demand_counts_half_after_a_while() -> None:
    history = SubmissionHistory()
    history.record_submission("s", [A])
    history.record_submission("s", [A, B])
    history.now += HALF_LIFE - 1
    history.record_submission("s", [A, C])
    assert history.demands[0] == pytest.approx(1.5)


def test_the_rate_is_higher_after_more_and_later_demands_and_in_the_latest_graph() -> None:
    history = SubmissionHistory()
    history.record_submission("s", [made("often"), made("once"), made("never")])
    history.record_submission("s", [made("often"), made("once"), made("x", "often", "once")])
    history.record_submission("s", [made("often"), made("y", "often")])
    rates = dict(zip(history.identities, estimate_reuse_rates(history), strict=True))
    assert rates["often"] > rates["once"] > rates["never"]


def test_what_left_the_latest_graph_counts_as_its_kind_used_to_come_back() -> None:
    def after(returns: bool) -> float:
        history = SubmissionHistory()
        for n in range(20):
            history.record_submission("s", [made("a") if returns and n % 2 else made(f"a{n}")])
        history.record_submission("s", [made("other", kind="o")])
        return float(estimate_reuse_rates(history)[history.numbers["a18"]])

    assert after(returns=True) > after(returns=False)


@pytest.mark.parametrize("name", HISTORIES)
def test_the_clairvoyant_knows_just_the_demands_that_come(name: str) -> None:
    submissions = HISTORIES[name](Random(3), 60)
    history, counted = SubmissionHistory(), dict[str, int]()
    for submission in submissions:
        history.record_submission(submission.series, submission.graph)
        for number, identity in enumerate(history.identities):
            if history.demanded_at[number] == history.now and history.demands[number] > 0:
                counted[identity] = counted.get(identity, 0) + 1
    assert counted == {identity: len(times) for identity, times in find_demands(submissions).items()}
