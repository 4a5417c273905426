"""Submissions and datasets in the catalog, on both databases: what runs, what waits, what is kept and what goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.catalog.driver import AT_ONCE
from tests.runtime.oneshots import Bench, action, bench, chain, verdicts, workflow

from tidemill.errors import Conflict, EvictionFailed, NotFound, RunFailed
from tidemill.model.run import ClaimRequest, RunState
from tidemill.model.states import DatasetState as D
from tidemill.model.submission import Submission
from tidemill.runtime.maintenance.vacuum import VacuumService

DIAMOND = workflow(action(1, "a"), action(2, "b", 1), action(3, "c", 1), action(4, "d", 2, 3))


@pytest.fixture
def mill(url: str, tmp_path: Path) -> Iterator[Bench]:
    with bench(url, tmp_path) as opened:
        yield opened


def states(mill: Bench, submission: Submission) -> dict[str, RunState]:
    return {a.key: a.state for a in mill.shop.dataset_catalog.read_submission(submission.id).actions}


def test_what_is_ready_runs_and_wakes_what_waits_for_it(mill: Bench) -> None:
    made = mill.submit(DIAMOND)
    assert states(mill, made) == {
        "1": RunState.READY,
        "2": RunState.WAITING,
        "3": RunState.WAITING,
        "4": RunState.WAITING,
    }
    mill.work(1)
    assert states(mill, made)["2"] is states(mill, made)["3"] is RunState.READY
    mill.work(1)
    assert states(mill, made)["4"] is RunState.WAITING
    mill.work()
    assert mill.shop.dataset_catalog.read_submission(made.id).state is RunState.FINISHED
    assert [mill.state(made, key) for key in (1, 2, 3, 4)] == [D.STORED, D.STORED, D.STORED, D.LEAF]
    mill.check(DIAMOND, made)
    assert all(d.claims == 0 for d in mill.shop.dataset_catalog.list_datasets())


def test_a_run_that_waits_for_others_cannot_be_claimed(mill: Bench) -> None:
    waiting = mill.submit(chain("a", "b")).actions[1].run
    assert waiting is not None
    with pytest.raises(Conflict, match="waits for the outputs of other runs"):
        mill.catalog.claim_run(waiting.id, ClaimRequest(), owner="me", lease=60.0)


def test_the_same_submitted_again_runs_nothing(mill: Bench) -> None:
    mill.run(DIAMOND)
    calls = len(mill.engine.calls)
    again = mill.submit(DIAMOND, "bob")
    assert set(verdicts(again).values()) == {"reused"}
    assert again.state is RunState.FINISHED
    assert len(mill.engine.calls) == calls
    assert sum(a.saved_seconds for a in again.actions) > 0


def test_another_workflow_reuses_what_is_the_same_and_makes_a_leaf_of_what_it_ends_with(mill: Bench) -> None:
    first = mill.run(chain("a", "b", "c"))
    other = mill.run(chain("a", "b", name="other"))
    assert verdicts(other) == {"1": "reused", "2": "reused"}
    assert mill.state(first, 2) is D.LEAF


def test_editing_one_action_computes_it_and_what_follows(mill: Bench) -> None:
    mill.run(chain("a", "b", "c"))
    edited = mill.run(chain("a", "b2", "c"))
    assert verdicts(edited) == {"1": "reused", "2": "changed", "3": "changed"}
    assert mill.engine.calls == ["a", "b", "c", "b2", "c"]
    assert "sql was 'b' and is 'b2'" in edited.actions[1].reason
    mill.check(chain("a", "b2", "c"), edited)


def test_what_another_submission_makes_is_awaited_and_made_once(mill: Bench) -> None:
    first, second = mill.submit(chain("a", "b")), mill.submit(chain("a", "b", "c", name="longer"))
    assert verdicts(second) == {"1": "awaited", "2": "awaited", "3": "new"}
    mill.work()
    assert mill.engine.calls == ["a", "b", "c"]
    for made in (first, second):
        assert mill.shop.dataset_catalog.read_submission(made.id).state is RunState.FINISHED


def test_force_makes_a_new_generation_that_is_found_afterwards(mill: Bench) -> None:
    plain, forced = chain("a", "b", "c"), chain("a", "b", "c")
    forced["actions"][1]["forceComputation"] = True
    before = mill.run(plain)
    assert verdicts(mill.run(forced)) == {"1": "reused", "2": "forced", "3": "changed"}
    after = mill.submit(plain)
    assert set(verdicts(after).values()) == {"reused"}
    assert after.actions[1].identity != before.actions[1].identity
    assert verdicts(mill.run(forced))["2"] == "forced"
    assert mill.engine.calls == ["a", "b", "c", "b", "c", "b", "c"]


def test_a_query_that_differs_each_time_is_never_reused(mill: Bench) -> None:
    varying = chain("SELECT rand() AS x", "b")
    mill.run(varying)
    mill.run(varying)
    assert len(mill.engine.calls) == 4


def test_equal_identities_with_other_descriptions_are_told_apart(mill: Bench) -> None:
    """As a collision of hashes would be: the catalog has something else under the identity."""
    made = mill.run(chain("a"))
    with mill.catalog._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE datasets SET description = '{\"other\": 1}'")
    again = mill.run(chain("a"))
    assert verdicts(again) != {"1": "reused"}
    assert again.actions[0].identity != made.actions[0].identity
    assert verdicts(mill.submit(chain("a"))) == {"1": "reused"}


def test_what_follows_from_a_failure_fails_and_what_does_not_goes_on(mill: Bench) -> None:
    mill.engine.failing["b"] = 1
    made = mill.submit(DIAMOND)
    with pytest.raises(RunFailed, match=r"(?s)2 of 4 actions of submission 1 failed.*no such column"):
        mill.shop.complete_submission(made.id)
    assert states(mill, made) == {
        "1": RunState.FINISHED,
        "2": RunState.FAILED,
        "3": RunState.FINISHED,
        "4": RunState.FAILED,
    }
    assert [mill.state(made, key) for key in (2, 4)] == [D.DELETED, D.DELETED]
    assert all(d.claims == 0 for d in mill.shop.dataset_catalog.list_datasets())
    again = mill.run(DIAMOND)
    assert verdicts(again) == {"1": "reused", "2": "new", "3": "reused", "4": "new"}
    assert mill.engine.calls.count("a") == 1
    mill.check(DIAMOND, again)


def test_attempts_are_made_as_often_as_an_action_says(mill: Bench) -> None:
    mill.engine.failing["a"] = 1
    document = workflow(action(1, "a", attempts=2))
    made = mill.submit(document)
    with pytest.raises(RunFailed):
        mill.shop.attempt_run(mill.catalog.list_runnable_runs()[0])
    assert states(mill, made) == {"1": RunState.WAITING}
    assert mill.catalog.list_runnable_runs() == []  # its time has not come


def test_a_killed_run_takes_what_waits_for_it_along(mill: Bench) -> None:
    made = mill.submit(chain("a", "b", "c"))
    first = made.actions[0].run
    assert first is not None
    mill.catalog.kill_run(first.id)
    assert list(states(mill, made).values()) == [RunState.KILLED, RunState.FAILED, RunState.FAILED]
    assert mill.catalog.list_runnable_runs() == []


def test_what_is_evicted_is_made_again_when_it_is_wanted(mill: Bench) -> None:
    made = mill.run(chain("a", "b", "c"))
    freed = mill.shop.build_evictor().free_bytes(sum(mill.dataset(made, k).bytes for k in (1, 2)))
    assert {g.dataset.name for g in freed.evictions} == {"a1", "a2"}
    assert [mill.state(made, k) for k in (1, 2, 3)] == [D.DELETED, D.DELETED, D.LEAF]
    assert mill.find_inconsistencies() == set()
    same = mill.submit(chain("a", "b", "c"))
    assert verdicts(same) == {"1": "unneeded", "2": "unneeded", "3": "reused"}
    other = mill.run(chain("a", "b", "c2"))
    assert verdicts(other) == {"1": "gone", "2": "gone", "3": "changed"}
    mill.check(chain("a", "b", "c2"), other)


def test_leaves_and_what_is_claimed_never_make_room(mill: Bench) -> None:
    made = mill.submit(chain("a", "b", "c"))
    mill.work(1)
    assert mill.dataset(made, 1).claims == 1
    with pytest.raises(EvictionFailed, match="delete unneeded leaves"):
        mill.shop.build_evictor().free_bytes(1)
    mill.work()
    assert {g.dataset.name for g in mill.shop.report_storage(10**9).evictions} == {"a1", "a2"}
    assert "all evictable datasets" in mill.shop.report_storage(10**9).problems[0]
    assert mill.shop.build_evictor().delete_evicted() == 0


def test_what_was_chosen_to_go_is_rescued_by_whoever_wants_it(mill: Bench) -> None:
    made = mill.run(chain("a", "b"))
    mill.shop.dataset_catalog.evict_datasets([made.actions[0].identity])
    assert mill.state(made, 1) is D.PROCESSING
    other = mill.submit(chain("a", "b2"))
    assert verdicts(other)["1"] == "reused"
    assert (mill.state(made, 1), mill.dataset(made, 1).claims) == (D.STORED, 1)
    assert mill.shop.build_evictor().delete_evicted() == 0
    mill.work()
    mill.check(chain("a", "b2"), other)


def test_what_is_wanted_while_it_is_deleted_is_made_again_after_that(mill: Bench) -> None:
    ledger = mill.shop.dataset_catalog
    made = mill.run(chain("a", "b"))
    identity = made.actions[0].identity
    ledger.evict_datasets([identity])
    paths = ledger.begin_deletion(identity)
    assert paths
    first, second = mill.submit(chain("a", "b2")), mill.submit(chain("a", "b3", name="other"))
    assert verdicts(first)["1"] == "gone"
    assert verdicts(second)["1"] == "awaited"
    assert mill.work() == 0
    mill.store.delete_files(paths)
    ledger.finish_deletion(identity)
    mill.work()
    mill.check(chain("a", "b2"), first)
    mill.check(chain("a", "b3"), second)
    assert mill.engine.calls.count("a") == 2


def test_a_deletion_whose_process_died_keeps_nobody_waiting(mill: Bench) -> None:
    made = mill.run(chain("a", "b"))
    middle, leaf = (a.identity for a in made.actions)
    mill.shop.dataset_catalog.evict_datasets([middle])
    mill.shop.dataset_catalog.drop_dataset(leaf)
    for identity in (middle, leaf):
        mill.shop.dataset_catalog.begin_deletion(identity)
    again = mill.run(chain("a", "b"))
    assert verdicts(again) == {"1": "gone", "2": "gone"}
    mill.check(chain("a", "b"), again)
    assert mill.find_inconsistencies() == set()


def test_a_user_drops_a_leaf(mill: Bench) -> None:
    made = mill.run(chain("a", "b"))
    mill.shop.drop_dataset(made.actions[1].identity[:10])
    assert mill.state(made, 2) is D.DELETED
    with pytest.raises(Conflict, match="not a leaf"):
        mill.shop.drop_dataset(made.actions[0].identity)
    with pytest.raises(NotFound, match="0 datasets"):
        mill.shop.drop_dataset("nope")


def test_lost_files_are_noticed_and_made_again(mill: Bench) -> None:
    made = mill.run(chain("a", "b"))
    mill.store.delete_files([f.path for f in mill.dataset(made, 1).files])
    with pytest.raises(RunFailed, match="is lost"):
        mill.run(chain("a", "b2"))
    again = mill.run(chain("a", "b2"))
    mill.check(chain("a", "b2"), again)


def test_removing_leaves_datasets_alone_and_takes_what_a_failure_left(mill: Bench) -> None:
    made = mill.run(chain("a", "b"))
    mill.engine.failing["c"] = 1
    mill.engine.before = lambda query: left_behind(mill) if query == "c" else None
    with pytest.raises(RunFailed):
        mill.run(chain("a", "b", "c"))
    assert len(mill.find_inconsistencies()) == 1
    assert VacuumService(mill.shop.executor).remove_due_files() == 0, "it was marked just now"
    assert VacuumService(mill.shop.executor, grace=AT_ONCE).remove_due_files() == 1
    assert mill.find_inconsistencies() == set()
    mill.check(chain("a", "b"), made)


def left_behind(mill: Bench) -> None:
    """A file in the directory of the attempt that is under way."""
    (directory,) = mill.catalog.list_active_directories()
    (Path(mill.store.stage_directory(f"{directory}/output")) / "part.parquet").write_bytes(b"left")


def test_what_is_left_of_a_lost_dataset_is_removed(mill: Bench) -> None:
    made = mill.run(chain("a", "b"))
    mill.store.delete_files([mill.dataset(made, 1).files[0].path])
    with pytest.raises(RunFailed, match="is lost"):
        mill.run(chain("a", "b2"))
    VacuumService(mill.shop.executor, grace=AT_ONCE).remove_due_files()
    assert mill.find_inconsistencies() == set()


def test_an_unknown_submission_says_which_there_are(mill: Bench) -> None:
    with pytest.raises(NotFound, match="there are none yet"):
        mill.shop.dataset_catalog.read_submission(1)
    mill.submit(chain("a"))
    with pytest.raises(NotFound, match="the newest is 1"):
        mill.shop.dataset_catalog.read_submission(7)
