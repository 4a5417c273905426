"""Submissions and datasets in the catalog, on both databases: execution, waiting, reuse and eviction."""

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
    with bench(url, tmp_path) as mill:
        yield mill


def read_states(mill: Bench, submission: Submission) -> dict[str, RunState]:
    return {a.key: a.state for a in mill.catalog.datasets.read_submission(submission.id).actions}


def test_a_finished_action_makes_its_successors_ready(mill: Bench) -> None:
    submission = mill.submit(DIAMOND)
    assert read_states(mill, submission) == {
        "1": RunState.READY,
        "2": RunState.WAITING,
        "3": RunState.WAITING,
        "4": RunState.WAITING,
    }
    mill.work(1)
    assert read_states(mill, submission)["2"] is read_states(mill, submission)["3"] is RunState.READY
    mill.work(1)
    assert read_states(mill, submission)["4"] is RunState.WAITING
    mill.work()
    assert mill.catalog.datasets.read_submission(submission.id).state is RunState.FINISHED
    assert [mill.state(submission, key) for key in (1, 2, 3, 4)] == [D.STORED, D.STORED, D.STORED, D.LEAF]
    mill.check(DIAMOND, submission)
    assert all(d.claims == 0 for d in mill.catalog.datasets.list())


def test_a_run_that_waits_for_others_cannot_be_claimed(mill: Bench) -> None:
    waiting = mill.submit(chain("a", "b")).actions[1].run
    assert waiting is not None
    with pytest.raises(Conflict, match="waits for the outputs of other runs"):
        mill.catalog.runs.claim(waiting.id, ClaimRequest(), owner="me", lease=60.0)


def test_resubmitting_the_same_workflow_runs_nothing(mill: Bench) -> None:
    mill.run(DIAMOND)
    calls = len(mill.engine.calls)
    again = mill.submit(DIAMOND, "bob")
    assert set(verdicts(again).values()) == {"reused"}
    assert again.state is RunState.FINISHED
    assert len(mill.engine.calls) == calls
    assert sum(a.saved_seconds for a in again.actions) > 0


def test_another_workflow_reuses_equal_datasets_and_turns_its_result_into_a_leaf(mill: Bench) -> None:
    first = mill.run(chain("a", "b", "c"))
    other = mill.run(chain("a", "b", name="other"))
    assert verdicts(other) == {"1": "reused", "2": "reused"}
    assert mill.state(first, 2) is D.LEAF


def test_editing_an_action_recomputes_it_and_its_successors(mill: Bench) -> None:
    mill.run(chain("a", "b", "c"))
    edited = mill.run(chain("a", "b2", "c"))
    assert verdicts(edited) == {"1": "reused", "2": "changed", "3": "changed"}
    assert mill.engine.calls == ["a", "b", "c", "b2", "c"]
    assert "sql was 'SELECT b' and is 'SELECT b2'" in edited.actions[1].reason
    mill.check(chain("a", "b2", "c"), edited)


def test_a_dataset_that_two_submissions_need_is_computed_once(mill: Bench) -> None:
    first, second = mill.submit(chain("a", "b")), mill.submit(chain("a", "b", "c", name="longer"))
    assert verdicts(second) == {"1": "awaited", "2": "awaited", "3": "new"}
    mill.work()
    assert mill.engine.calls == ["a", "b", "c"]
    for submission in (first, second):
        assert mill.catalog.datasets.read_submission(submission.id).state is RunState.FINISHED


def test_a_forced_computation_makes_a_new_generation_that_is_reused(mill: Bench) -> None:
    plain, forced = chain("a", "b", "c"), chain("a", "b", "c")
    forced["actions"][1]["forceComputation"] = True
    before = mill.run(plain)
    assert verdicts(mill.run(forced)) == {"1": "reused", "2": "forced", "3": "changed"}
    after = mill.submit(plain)
    assert set(verdicts(after).values()) == {"reused"}
    assert after.actions[1].identity != before.actions[1].identity
    assert verdicts(mill.run(forced))["2"] == "forced"
    assert mill.engine.calls == ["a", "b", "c", "b", "c", "b", "c"]


def test_a_nondeterministic_query_is_never_reused(mill: Bench) -> None:
    varying = chain("rand() AS x", "b")
    mill.run(varying)
    mill.run(varying)
    assert len(mill.engine.calls) == 4


def test_equal_identities_with_different_descriptions_are_distinguished(mill: Bench) -> None:
    """Simulates a hash collision: the catalog has another description for the identity."""
    submission = mill.run(chain("a"))
    with mill.catalog.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE datasets SET description = '{\"other\": 1}'")
    again = mill.run(chain("a"))
    assert verdicts(again) != {"1": "reused"}
    assert again.actions[0].identity != submission.actions[0].identity
    assert verdicts(mill.submit(chain("a"))) == {"1": "reused"}


def test_successors_of_a_failed_action_fail_and_others_continue(mill: Bench) -> None:
    mill.engine.failing["b"] = 1
    submission = mill.submit(DIAMOND)
    with pytest.raises(RunFailed, match=r"(?s)2 of 4 actions of submission 1 failed.*no such column"):
        mill.shop.complete_submission(submission.id)
    assert read_states(mill, submission) == {
        "1": RunState.FINISHED,
        "2": RunState.FAILED,
        "3": RunState.FINISHED,
        "4": RunState.FAILED,
    }
    assert [mill.state(submission, key) for key in (2, 4)] == [D.DELETED, D.DELETED]
    assert all(d.claims == 0 for d in mill.catalog.datasets.list())
    again = mill.run(DIAMOND)
    assert verdicts(again) == {"1": "reused", "2": "new", "3": "reused", "4": "new"}
    assert mill.engine.calls.count("a") == 1
    mill.check(DIAMOND, again)


def test_an_action_is_attempted_as_often_as_declared(mill: Bench) -> None:
    mill.engine.failing["a"] = 1
    document = workflow(action(1, "a", attempts=2))
    submission = mill.submit(document)
    with pytest.raises(RunFailed):
        mill.shop.execute_run(mill.catalog.runs.list_runnable()[0])
    assert read_states(mill, submission) == {"1": RunState.WAITING}
    assert mill.catalog.runs.list_runnable() == []  # its retry is not due yet


def test_killing_a_run_kills_its_successors(mill: Bench) -> None:
    submission = mill.submit(chain("a", "b", "c"))
    first = submission.actions[0].run
    assert first is not None
    mill.catalog.runs.kill(first.id)
    assert list(read_states(mill, submission).values()) == [RunState.KILLED, RunState.FAILED, RunState.FAILED]
    assert mill.catalog.runs.list_runnable() == []


def test_an_evicted_dataset_is_recomputed_when_it_is_needed(mill: Bench) -> None:
    submission = mill.run(chain("a", "b", "c"))
    freed = mill.shop.build_evictor().free_bytes(sum(mill.dataset(submission, k).bytes for k in (1, 2)))
    assert {g.dataset.name for g in freed.evictions} == {"a1", "a2"}
    assert [mill.state(submission, k) for k in (1, 2, 3)] == [D.DELETED, D.DELETED, D.LEAF]
    assert mill.find_inconsistencies() == set()
    same = mill.submit(chain("a", "b", "c"))
    assert verdicts(same) == {"1": "unneeded", "2": "unneeded", "3": "reused"}
    other = mill.run(chain("a", "b", "c2"))
    assert verdicts(other) == {"1": "gone", "2": "gone", "3": "changed"}
    mill.check(chain("a", "b", "c2"), other)


def test_leaves_and_claimed_datasets_are_never_evicted(mill: Bench) -> None:
    submission = mill.submit(chain("a", "b", "c"))
    mill.work(1)
    assert mill.dataset(submission, 1).claims == 1
    with pytest.raises(EvictionFailed, match="delete unneeded leaves"):
        mill.shop.build_evictor().free_bytes(1)
    mill.work()
    assert {g.dataset.name for g in mill.shop.report_storage(10**9).evictions} == {"a1", "a2"}
    assert "all evictable datasets" in mill.shop.report_storage(10**9).problems[0]
    assert mill.shop.build_evictor().delete_evicted() == 0


def test_a_dataset_selected_for_eviction_is_kept_if_it_is_needed(mill: Bench) -> None:
    submission = mill.run(chain("a", "b"))
    mill.catalog.datasets.evict([submission.actions[0].identity])
    assert mill.state(submission, 1) is D.PROCESSING
    other = mill.submit(chain("a", "b2"))
    assert verdicts(other)["1"] == "reused"
    assert (mill.state(submission, 1), mill.dataset(submission, 1).claims) == (D.STORED, 1)
    assert mill.shop.build_evictor().delete_evicted() == 0
    mill.work()
    mill.check(chain("a", "b2"), other)


def test_a_dataset_needed_during_its_deletion_is_recomputed_afterwards(mill: Bench) -> None:
    datasets = mill.catalog.datasets
    submission = mill.run(chain("a", "b"))
    identity = submission.actions[0].identity
    datasets.evict([identity])
    paths = datasets.begin_deletion(identity)
    assert paths
    first, second = mill.submit(chain("a", "b2")), mill.submit(chain("a", "b3", name="other"))
    assert verdicts(first)["1"] == "gone"
    assert verdicts(second)["1"] == "awaited"
    assert mill.work() == 0
    mill.store.delete_files(paths)
    datasets.finish_deletion(identity)
    mill.work()
    mill.check(chain("a", "b2"), first)
    mill.check(chain("a", "b3"), second)
    assert mill.engine.calls.count("a") == 2


def test_a_deletion_whose_process_died_does_not_block_submissions(mill: Bench) -> None:
    submission = mill.run(chain("a", "b"))
    middle, leaf = (a.identity for a in submission.actions)
    mill.catalog.datasets.evict([middle])
    mill.catalog.datasets.drop(leaf)
    for identity in (middle, leaf):
        mill.catalog.datasets.begin_deletion(identity)
    again = mill.run(chain("a", "b"))
    assert verdicts(again) == {"1": "gone", "2": "gone"}
    mill.check(chain("a", "b"), again)
    assert mill.find_inconsistencies() == set()


def test_a_user_can_drop_a_leaf(mill: Bench) -> None:
    submission = mill.run(chain("a", "b"))
    mill.shop.drop_dataset(submission.actions[1].identity[:10])
    assert mill.state(submission, 2) is D.DELETED
    with pytest.raises(Conflict, match="not a leaf"):
        mill.shop.drop_dataset(submission.actions[0].identity)
    with pytest.raises(NotFound, match="0 datasets"):
        mill.shop.drop_dataset("nope")


def test_lost_files_are_detected_and_recomputed(mill: Bench) -> None:
    submission = mill.run(chain("a", "b"))
    mill.store.delete_files([f.path for f in mill.dataset(submission, 1).files])
    with pytest.raises(RunFailed, match="is lost"):
        mill.run(chain("a", "b2"))
    again = mill.run(chain("a", "b2"))
    mill.check(chain("a", "b2"), again)


def test_removal_deletes_files_of_failed_attempts_and_keeps_datasets(mill: Bench) -> None:
    submission = mill.run(chain("a", "b"))
    mill.engine.failing["c"] = 1
    mill.engine.before = lambda query: write_leftover(mill) if query == "c" else None
    with pytest.raises(RunFailed):
        mill.run(chain("a", "b", "c"))
    assert len(mill.find_inconsistencies()) == 1
    assert VacuumService(mill.shop.executor).remove_due_files() == 0, "it was marked just now"
    assert VacuumService(mill.shop.executor, grace=AT_ONCE).remove_due_files() == 1
    assert mill.find_inconsistencies() == set()
    mill.check(chain("a", "b"), submission)


def write_leftover(mill: Bench) -> None:
    """Write a file to the directory of the active attempt."""
    (directory,) = mill.catalog.files.list_active_directories()
    (Path(mill.store.stage_directory(f"{directory}/output")) / "part.parquet").write_bytes(b"left")


def test_remaining_files_of_a_lost_dataset_are_removed(mill: Bench) -> None:
    submission = mill.run(chain("a", "b"))
    mill.store.delete_files([mill.dataset(submission, 1).files[0].path])
    with pytest.raises(RunFailed, match="is lost"):
        mill.run(chain("a", "b2"))
    VacuumService(mill.shop.executor, grace=AT_ONCE).remove_due_files()
    assert mill.find_inconsistencies() == set()


def test_the_error_for_an_unknown_submission_names_the_newest(mill: Bench) -> None:
    with pytest.raises(NotFound, match="there are none yet"):
        mill.catalog.datasets.read_submission(1)
    mill.submit(chain("a"))
    with pytest.raises(NotFound, match="the newest is 1"):
        mill.catalog.datasets.read_submission(7)
