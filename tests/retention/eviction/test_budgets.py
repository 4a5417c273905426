"""Several budgets at once: whatever the algorithm, each is kept that can be, and nothing goes that must stay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.retention.eviction.worlds import worlds

from tidemill.retention.eviction import ALGORITHMS
from tidemill.retention.eviction.budgets import SpaceRequest, choose_evictions
from tidemill.retention.eviction.history import ProducedDataset, SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, Flags, to_figures


@dataclass(frozen=True)
class Case:
    """Datasets of two workflows, and what each and the store have to free."""

    history: SubmissionHistory
    store: DatasetStore
    of: dict[str, Flags]
    amounts: dict[str, int]

    @property
    def wants(self) -> list[SpaceRequest]:
        return [SpaceRequest(amount, self.of[whose], whose) for whose, amount in self.amounts.items()]

    def movable(self, whose: str) -> float:
        return float(self.store.bytes[self.store.evictable[self.of[whose][self.store.evictable]]].sum())


@st.composite
def cases(draw: st.DrawFn) -> Case:
    history, store = draw(worlds())
    size = len(history)
    first = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    of = {"a": first, "b": ~first, "all": np.ones(size, dtype=np.bool_)}
    return Case(history, store, of, {whose: draw(st.integers(0, 60)) for whose in of})


@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=60)
@given(case=cases())
def test_every_budget_is_kept_that_can_be_and_the_others_are_named(name: str, case: Case) -> None:
    made = choose_evictions(ALGORITHMS[name](), case.history, case.store, case.wants)
    assert len(made.evicted) == len(set(made.evicted))
    assert set(made.evicted) <= set(case.store.evictable.tolist())
    for whose, amount in case.amounts.items():
        freed = sum(case.store.bytes[n] for n in made.evicted if case.of[whose][n])
        possible = case.movable(whose) >= amount
        assert freed >= min(amount, case.movable(whose))
        assert possible != any(p.startswith(f"{whose}: ") and "evictable" in p for p in made.problems)


@given(case=cases())
def test_a_budget_that_cannot_be_kept_takes_all_that_may_go_and_says_what_is_missing(case: Case) -> None:
    hopeless = [SpaceRequest(case.movable("a") + 1, case.of["a"], "a")]
    made = choose_evictions(ALGORITHMS["lru"](), case.history, case.store, hopeless)
    assert sum(case.store.bytes[n] for n in made.evicted) == case.movable("a")
    assert len(made.problems) == 1
    assert "1 bytes are missing" in made.problems[0]


def test_what_goes_for_a_workflow_counts_for_the_store() -> None:
    """Ten bytes of the workflow go; the store wants no more than that, so nothing else does."""
    history = SubmissionHistory()
    history.record_submission("s", [ProducedDataset(name, (), "k", 1.0, 10) for name in ("other", "mine")])
    there = np.ones(2, dtype=np.bool_)
    store = DatasetStore(there, np.array([0, 1]), to_figures(history.seconds), to_figures(history.bytes))
    wants = [SpaceRequest(10, np.array([False, True]), "a"), SpaceRequest(10, there, "all")]
    assert choose_evictions(ALGORITHMS["lru"](), history, store, wants).evicted == [1]
