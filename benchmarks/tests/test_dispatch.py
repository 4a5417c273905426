"""The timed dispatchers make real decisions."""

from __future__ import annotations

import pytest
from benchmarks.dispatch import CONFIGS, build_dispatcher, build_dispatcher_before_round, measure

from tidemill.scheduler.policies import POLICIES


def test_simulations_and_decisions_are_timed() -> None:
    messages: list[str] = []
    document = measure(events=2000, tables=50, rounds=1, on_progress=messages.append)
    assert [s["way"] for s in document["simulations"]] == list(CONFIGS)
    assert [d["policy"] for d in document["decisions"]] == list(POLICIES)
    assert all(0 < s["least_s"] <= s["seconds"] for s in document["simulations"])
    assert all(0 < d["median_ms"] <= d["slowest_ms"] for d in document["decisions"])
    assert len(messages) == len(CONFIGS) + len(POLICIES)


@pytest.mark.parametrize("policy", POLICIES)
def test_one_table_is_chosen_for_each_track(policy: str) -> None:
    mill, jobs = build_dispatcher(policy, 200)
    assert len(jobs) == 200
    assert len({track for _, track, _ in mill.dispatch_jobs(1.0)}) == 4


@pytest.mark.parametrize("policy", ["quantum", "round-robin", "rate"])
def test_a_new_round_is_one_decision(policy: str) -> None:
    mill = build_dispatcher_before_round(policy, 50)
    assert len(mill.dispatch_jobs(1.0)) == 1
