"""Several budgets at once: each feasible budget and evicts no required dataset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.retention.eviction.random_stores import random_stores

from tidemill.retention.eviction.history import ProducedDataset, SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, Flags, to_figures
from tidemill.retention.eviction.two_sided import SpaceRequest, choose_evictions


@dataclass(frozen=True)
class Case:
    """Datasets of two workflows, and the bytes that each workflow and the store must free."""

    history: SubmissionHistory
    store: DatasetStore
    membership: dict[str, Flags]
    amounts: dict[str, int]

    @property
    def requests(self) -> list[SpaceRequest]:
        return [SpaceRequest(amount, self.membership[name], name) for name, amount in self.amounts.items()]

    def sum_evictable(self, name: str) -> float:
        return float(self.store.bytes[self.store.evictable[self.membership[name][self.store.evictable]]].sum())


@st.composite
def cases(draw: st.DrawFn) -> Case:
    history, store = draw(random_stores())
    size = len(history)
    first = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    membership = {"a": first, "b": ~first, "all": np.ones(size, dtype=np.bool_)}
    return Case(history, store, membership, {name: draw(st.integers(0, 60)) for name in membership})


@settings(max_examples=100)
@given(case=cases())
def test_every_feasible_budget_is_met_and_the_others_are_named(case: Case) -> None:
    choice = choose_evictions(case.history, case.store, case.requests)
    assert len(choice.evicted) == len(set(choice.evicted))
    assert set(choice.evicted) <= set(case.store.evictable.tolist())
    for owner, amount in case.amounts.items():
        freed = sum(case.store.bytes[n] for n in choice.evicted if case.membership[owner][n])
        is_feasible = case.sum_evictable(owner) >= amount
        assert freed >= min(amount, case.sum_evictable(owner))
        assert is_feasible != any(p.startswith(f"{owner}: ") and "evictable" in p for p in choice.problems)


@given(case=cases())
def test_an_infeasible_budget_evicts_all_it_can_and_reports_the_rest(case: Case) -> None:
    infeasible = [SpaceRequest(case.sum_evictable("a") + 1, case.membership["a"], "a")]
    choice = choose_evictions(case.history, case.store, infeasible)
    assert sum(case.store.bytes[n] for n in choice.evicted) == case.sum_evictable("a")
    assert len(choice.problems) == 1
    assert "1 bytes are missing" in choice.problems[0]


def test_evictions_for_a_workflow_count_for_the_store() -> None:
    """Ten bytes of the workflow are evicted; the store needs no more, so nothing else is evicted."""
    history = SubmissionHistory()
    history.record_submission("s", [ProducedDataset(name, (), "k", 1.0, 10) for name in ("other", "mine")])
    all_datasets = np.ones(2, dtype=np.bool_)
    store = DatasetStore(all_datasets, np.array([0, 1]), to_figures(history.seconds), to_figures(history.bytes))
    requests = [SpaceRequest(10, np.array([False, True]), "a"), SpaceRequest(10, all_datasets, "all")]
    assert choose_evictions(history, store, requests).evicted == [1]
