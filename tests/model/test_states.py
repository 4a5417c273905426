"""Every legal move and no other; and what no sequence of moves can ever bring about."""

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
def test_a_run_moves_as_the_table_says_and_in_no_other_way(before: R, after: R) -> None:
    if after in RUN_TRANSITIONS.list_targets(before):
        RUN_TRANSITIONS.check_transition(before, after)
    else:
        with pytest.raises(IllegalTransition, match=f"{before} cannot become {after}"):
            RUN_TRANSITIONS.check_transition(before, after)


@pytest.mark.parametrize(("before", "after"), list(product(D, D)))
def test_a_dataset_moves_as_the_table_says_and_in_no_other_way(before: D, after: D) -> None:
    if after in DATASET_TRANSITIONS.list_targets(before):
        assert Dataset(before).transition_to(after) == Dataset(after, version=1)
    else:
        with pytest.raises(IllegalTransition, match="from there it can become"):
            Dataset(before).transition_to(after)


def test_the_tables_name_no_move_twice() -> None:
    for machine in (RUN_TRANSITIONS, DATASET_TRANSITIONS):
        pairs = [(m.before, m.after) for m in machine.transitions]
        assert len(pairs) == len(set(pairs))


def test_every_live_run_can_be_killed_and_what_has_ended_stays_so() -> None:
    assert {s for s in R if R.KILLED in RUN_TRANSITIONS.list_targets(s)} == {*PENDING_STATES, *ACTIVE_STATES}
    for ended in (R.FINISHED, R.FAILED, R.KILLED):
        assert RUN_TRANSITIONS.list_targets(ended) == ()


def test_what_is_being_deleted_is_never_rescued() -> None:
    assert set(DATASET_TRANSITIONS.list_targets(D.DELETING)) == {D.DELETING, D.DELETED}
    with pytest.raises(IllegalTransition, match="recompute it"):
        Dataset(D.DELETING).retain_dataset(leaf=True)


def test_what_somebody_reads_goes_when_the_last_has_read_it() -> None:
    dataset = Dataset(D.STORED).add_claim().add_claim().mark_for_eviction()
    assert dataset.state is D.STORED_TO_DELETE
    assert dataset.release_claim().state is D.STORED_TO_DELETE
    assert dataset.release_claim().release_claim().state is D.PROCESSING


@pytest.mark.parametrize("state", sorted(set(D) - {D.STORED}))
def test_only_what_is_stored_makes_room(state: D) -> None:
    with pytest.raises(IllegalTransition, match="choose another"):
        Dataset(state).mark_for_eviction()


class OneDataset(RuleBasedStateMachine):
    """A dataset in the hands of producers, readers, a janitor and a user, in any order; nobody deletes leaves."""

    @initialize(state=st.sampled_from(sorted(PRODUCING_STATES)))
    def begin(self, state: D) -> None:
        self.dataset = Dataset(state)
        self.readers = 0
        self.kept = state is D.TO_LEAF
        self.lost = False

    def move(self, after: D) -> None:
        self.dataset = self.dataset.transition_to(after)

    @precondition(lambda self: self.dataset.state in PRODUCING_STATES)
    @rule(succeeds=st.booleans())
    def produce(self, succeeds: bool) -> None:
        done = {D.TO_STORE: D.STORED, D.TO_LEAF: D.LEAF, D.TO_DELETE: D.STORED_TO_DELETE}[self.dataset.state]
        self.move(done if succeeds else D.DELETED)
        if not succeeds:
            self.readers, self.kept = 0, False

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
    def evict_what_is_pinned(self) -> None:
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
    def want(self, leaf: bool) -> None:
        self.dataset = self.dataset.retain_dataset(leaf=leaf)
        self.kept = self.kept or leaf

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
    def make_again(self, state: D) -> None:
        self.move(D.TO_STORE if self.dataset.pinned and state is D.TO_DELETE else state)
        self.kept = state is D.TO_LEAF

    @invariant()
    def claims_are_counted_and_hold_it(self) -> None:
        assert self.dataset.claims == self.readers
        assert not self.readers or self.dataset.state in READABLE_STATES | PRODUCING_STATES

    @invariant()
    def nothing_that_is_pinned_is_about_to_go(self) -> None:
        assert not self.dataset.pinned or self.dataset.state not in (D.PROCESSING, D.DELETING, D.STORED_TO_DELETE)

    @invariant()
    def what_is_to_stay_stays(self) -> None:
        assert not self.kept or self.dataset.state in (D.TO_LEAF, D.LEAF)


TestOneDataset = OneDataset.TestCase
