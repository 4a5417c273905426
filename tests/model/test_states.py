"""Every legal state transition and no other, and invariants of all sequences of transitions."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidemill.errors import IllegalTransition
from tidemill.model.run import ACTIVE_STATES, PENDING_STATES
from tidemill.model.run import RunState as R
from tidemill.model.states import DATASET_TRANSITIONS, PRODUCING_STATES, READABLE_STATES, RUN_TRANSITIONS, Dataset
from tidemill.model.states import DatasetState as D


@pytest.mark.parametrize(("before", "after"), list(product(R, R)))
def test_a_run_makes_only_the_transitions_of_the_table(before: R, after: R) -> None:
    if after in RUN_TRANSITIONS.list_targets(before):
        RUN_TRANSITIONS.check_transition(before, after)
    else:
        with pytest.raises(IllegalTransition, match=f"{before} cannot become {after}"):
            RUN_TRANSITIONS.check_transition(before, after)


@pytest.mark.parametrize(("before", "after"), list(product(D, D)))
def test_a_dataset_makes_only_the_transitions_of_the_table(before: D, after: D) -> None:
    if after in DATASET_TRANSITIONS.list_targets(before):
        assert Dataset(before).transition_to(after) == Dataset(after, version=1)
    else:
        with pytest.raises(IllegalTransition, match="from there it can become"):
            Dataset(before).transition_to(after)


def test_every_transition_is_listed_once() -> None:
    for machine in (RUN_TRANSITIONS, DATASET_TRANSITIONS):
        pairs = [(m.before, m.after) for m in machine.transitions]
        assert len(pairs) == len(set(pairs))


def test_every_unfinished_run_can_be_killed_and_final_states_do_not_change() -> None:
    assert {s for s in R if R.KILLED in RUN_TRANSITIONS.list_targets(s)} == {*PENDING_STATES, *ACTIVE_STATES}
    for ended in (R.FINISHED, R.FAILED, R.KILLED):
        assert RUN_TRANSITIONS.list_targets(ended) == ()


def test_a_dataset_that_is_being_deleted_cannot_be_retained() -> None:
    assert set(DATASET_TRANSITIONS.list_targets(D.DELETING)) == {D.DELETING, D.DELETED}
    with pytest.raises(IllegalTransition, match="recompute it"):
        Dataset(D.DELETING).retain_dataset(leaf=True)


def test_a_dataset_in_use_is_evicted_after_its_last_reader() -> None:
    dataset = Dataset(D.STORED).add_claim().add_claim().mark_for_eviction()
    assert dataset.state is D.STORED_TO_DELETE
    assert dataset.release_claim().state is D.STORED_TO_DELETE
    assert dataset.release_claim().release_claim().state is D.PROCESSING


@pytest.mark.parametrize("state", sorted(set(D) - {D.STORED}))
def test_only_stored_datasets_can_be_evicted(state: D) -> None:
    with pytest.raises(IllegalTransition, match="choose another"):
        Dataset(state).mark_for_eviction()


class OneDataset(RuleBasedStateMachine):
    """A dataset used by producers, readers, maintenance and a user, in any order; leaves are never deleted."""

    @initialize(state=st.sampled_from(sorted(PRODUCING_STATES)))
    def begin(self, state: D) -> None:
        self.dataset = Dataset(state)
        self.readers = 0
        self.is_leaf = state is D.TO_LEAF
        self.lost = False

    def move(self, after: D) -> None:
        self.dataset = self.dataset.transition_to(after)

    @precondition(lambda self: self.dataset.state in PRODUCING_STATES)
    @rule(succeeds=st.booleans())
    def produce(self, succeeds: bool) -> None:
        completed = {D.TO_STORE: D.STORED, D.TO_LEAF: D.LEAF, D.TO_DELETE: D.STORED_TO_DELETE}[self.dataset.state]
        self.move(completed if succeeds else D.DELETED)
        if not succeeds:
            self.readers, self.is_leaf = 0, False

    @precondition(lambda self: self.dataset.state in READABLE_STATES | PRODUCING_STATES)
    @rule()
    def claim(self) -> None:
        self.dataset = self.dataset.add_claim()
        self.readers += 1

    @precondition(lambda self: self.readers and self.dataset.state in READABLE_STATES)
    @rule()
    def release(self) -> None:
        self.dataset = self.dataset.release_claim()
        self.readers -= 1

    @precondition(lambda self: self.dataset.state is D.STORED and not self.dataset.pinned)
    @rule()
    def evict(self) -> None:
        self.dataset = self.dataset.mark_for_eviction()

    @precondition(lambda self: self.dataset.state is D.STORED and self.dataset.pinned)
    @rule()
    def evict_pinned_dataset(self) -> None:
        with pytest.raises(IllegalTransition, match="unpin it first"):
            self.dataset.mark_for_eviction()

    @precondition(lambda self: self.dataset.state not in (D.DELETING, D.DELETED))
    @rule()
    def pin(self) -> None:
        self.dataset = self.dataset.pin()

    @rule()
    def unpin(self) -> None:
        self.dataset = self.dataset.unpin()

    @precondition(lambda self: self.dataset.state not in (D.DELETING, D.DELETED))
    @rule(leaf=st.booleans())
    def retain(self, leaf: bool) -> None:
        self.dataset = self.dataset.retain_dataset(leaf=leaf)
        self.is_leaf = self.is_leaf or leaf

    @precondition(lambda self: self.dataset.state is D.PROCESSING)
    @rule()
    def delete(self) -> None:
        self.move(D.DELETING)

    @precondition(lambda self: self.dataset.state is D.DELETING)
    @rule(fails=st.booleans())
    def finish_deleting(self, fails: bool) -> None:
        self.move(D.DELETING if fails else D.DELETED)

    @precondition(lambda self: self.dataset.state is D.DELETED)
    @rule(state=st.sampled_from(sorted(PRODUCING_STATES)))
    def recompute(self, state: D) -> None:
        self.move(D.TO_STORE if self.dataset.pinned and state is D.TO_DELETE else state)
        self.is_leaf = state is D.TO_LEAF

    @invariant()
    def check_claims(self) -> None:
        assert self.dataset.claims == self.readers
        assert not self.readers or self.dataset.state in READABLE_STATES | PRODUCING_STATES

    @invariant()
    def check_pins(self) -> None:
        assert not self.dataset.pinned or self.dataset.state not in (D.PROCESSING, D.DELETING, D.STORED_TO_DELETE)

    @invariant()
    def check_leaves(self) -> None:
        assert not self.is_leaf or self.dataset.state in (D.TO_LEAF, D.LEAF)


TestOneDataset = OneDataset.TestCase
