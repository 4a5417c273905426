"""Attempts that are lost for no fault of the tasks': they are given back, and what they were to do stays due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Connection
from tests.catalog.driver import CHANNELS, COPY, LEASE, Driver, FakeClock, inserting, moves_of, task

from tidemill.catalog import SqlCatalog, runs
from tidemill.errors import Conflict, InsertInProgress
from tidemill.model.block import BlockKind
from tidemill.model.flow import BoundFlow
from tidemill.model.run import MAX_LOST_ATTEMPTS, RunClaim, RunKind, RunState, build_claim_request
from tidemill.model.task import ReadMode
from tidemill.model.trigger import AllOfTrigger, DataTrigger, LagTrigger, RunTrigger, Trigger
from tidemill.model.workflow import WorkflowSpec

OTHER = BoundFlow("other", (task("others", {"b": ReadMode.NEW}, {"e": BlockKind.DELTA}),))


def applied(driver: Driver, *triggers: Trigger, other: tuple[Trigger, ...] = ()) -> None:
    bindings = (replace(COPY, triggers=triggers), replace(OTHER, triggers=other))
    channels = (*CHANNELS, replace(CHANNELS[2], name="e"))
    driver.catalog.apply_workflow(WorkflowSpec("w", channels, bindings))


def fire(driver: Driver) -> list[int]:
    return [
        run for leaf in driver.catalog.list_due_triggers() if (run := driver.catalog.fire_trigger(leaf)) is not None
    ]


def lose(driver: Driver, run: int, binding: BoundFlow = COPY, times: int = MAX_LOST_ATTEMPTS + 1) -> RunState:
    """Claim a run so many times, and lose each attempt."""
    for _ in range(times):
        claim = driver.claim(run, build_claim_request(binding))
        driver.catalog.fail_run(run, claim.run.fencing_token, error="the engine is gone", retry_in=0.0, is_lost=True)
    return driver.catalog.read_run(run).state


def waits(driver: Driver) -> list[tuple[str, float]]:
    """The flows that have a run to come, and in how many seconds."""
    known = driver.catalog.list_runs(limit=1000)
    to_come = [r for r in known if r.state in (RunState.WAITING, RunState.READY)]
    return [(r.subject, max(0.0, (r.not_before or 0.0) - driver.clock.now)) for r in to_come]


def test_lost_attempts_do_not_use_up_those_of_the_tasks(driver: Driver) -> None:
    run = driver.request(RunKind.FLOW, "copy", attempts=2)
    assert lose(driver, run, times=2) is RunState.READY
    states = []
    for _ in range(2):
        claim = driver.claim(run, build_claim_request(COPY))
        states.append(driver.catalog.fail_run(run, claim.run.fencing_token, error="bad", retry_in=0.0).state)
    assert states == [RunState.READY, RunState.FAILED]
    assert (driver.catalog.read_run(run).attempt, driver.catalog.read_run(run).lost_attempts) == (4, 2)


def test_a_run_that_is_lost_again_and_again_fails(driver: Driver) -> None:
    run = driver.request(RunKind.FLOW, "copy", attempts=9)
    assert lose(driver, run, times=MAX_LOST_ATTEMPTS) is RunState.READY
    assert lose(driver, run, times=1) is RunState.FAILED


def test_a_run_whose_server_died_lost_an_attempt(driver: Driver) -> None:
    claim = driver.open_flow()
    driver.clock.now += LEASE
    (given_up,) = driver.catalog.reclaim_expired_runs()
    assert (given_up.id, given_up.state, given_up.lost_attempts) == (claim.run.id, RunState.READY, 1)


@pytest.mark.parametrize(
    ("triggers", "inserted"),
    [
        ((DataTrigger("a"),), "a"),
        ((DataTrigger("a", rows=2),), "a"),
        ((AllOfTrigger((DataTrigger("a"), DataTrigger("b"))),), "ab"),
    ],
    ids=["data", "rows", "compound"],
)
def test_what_was_fired_stays_due_when_its_run_is_lost(
    driver: Driver, clock: FakeClock, triggers: tuple[Trigger, ...], inserted: str
) -> None:
    applied(driver, *triggers)
    for channel in inserted:
        driver.insert(channel)
    (run,) = fire(driver)
    assert lose(driver, run) is RunState.FAILED
    assert fire(driver) == []
    ((flow, wait),) = waits(driver)
    assert flow == "copy"
    assert 0 < wait <= 60
    assert driver.catalog.list_runnable_runs() == []
    clock.now += wait
    (again,) = driver.catalog.list_runnable_runs()
    assert [(f.run, f.trigger) for f in driver.catalog.list_firings()] == [(again.id, triggers[0])]
    claim = driver.claim(again.id, build_claim_request(COPY))
    driver.commit(claim, moves_of(claim))
    assert waits(driver) == []


def test_what_follows_another_flow_stays_due_when_its_run_is_lost(driver: Driver) -> None:
    applied(driver, DataTrigger("a"), other=(RunTrigger("copy"),))
    driver.insert("a")
    (run,) = fire(driver)
    driver.commit(driver.claim(run, build_claim_request(COPY)))
    (following,) = fire(driver)
    assert lose(driver, following, OTHER) is RunState.FAILED
    assert [flow for flow, _ in waits(driver)] == ["other"]


def test_a_flow_that_is_lost_every_time_waits_longer_each_time(driver: Driver, clock: FakeClock) -> None:
    applied(driver, DataTrigger("a"))
    driver.insert("a")
    (run,) = fire(driver)
    found = []
    for _ in range(8):
        assert lose(driver, run) is RunState.FAILED
        ((_, wait),) = waits(driver)
        found.append(wait)
        clock.now += wait
        (run,) = (r.id for r in driver.catalog.list_runnable_runs())
    assert found == sorted(found)
    assert found[0] < found[1] < found[2]
    assert found[-1] == found[-2] <= 600
    driver.commit(driver.claim(run, build_claim_request(COPY)))
    driver.insert("a")
    (run,) = fire(driver)
    lose(driver, run)
    assert waits(driver) == [("copy", found[0])]  # it counts from the last success


def test_new_data_do_not_wait_for_what_was_lost(driver: Driver) -> None:
    applied(driver, DataTrigger("a"))
    driver.insert("a")
    (run,) = fire(driver)
    lose(driver, run)
    (to_come,) = [r.id for r in driver.catalog.list_runs(state=RunState.WAITING)]
    driver.insert("a")
    assert fire(driver) == [to_come]
    assert [r.id for r in driver.catalog.list_runnable_runs()] == [to_come]


def test_what_the_tasks_got_wrong_waits_for_new_data(driver: Driver) -> None:
    applied(driver, DataTrigger("a"))
    driver.insert("a")
    (run,) = fire(driver)
    claim = driver.claim(run, build_claim_request(COPY))
    driver.catalog.fail_run(run, claim.run.fencing_token, error="bad word")
    assert waits(driver) == []
    driver.insert("a")
    assert len(fire(driver)) == 1


def test_a_run_that_nothing_fired_is_not_asked_for_again(driver: Driver) -> None:
    run = driver.request(RunKind.FLOW, "copy")
    assert lose(driver, run) is RunState.FAILED
    assert waits(driver) == []


def test_a_target_stays_due_and_waits_longer_each_time(driver: Driver, clock: FakeClock) -> None:
    applied(driver, LagTrigger("a", 10.0))
    driver.insert("a")
    clock.now += 10
    found = []
    for _ in range(3):
        (run,) = fire(driver)
        assert lose(driver, run) is RunState.FAILED
        assert waits(driver) == []  # the target itself is due again
        (leaf,) = driver.catalog.list_triggers()
        assert leaf.due is not None
        found.append(leaf.due - clock.now)
        clock.now = leaf.due
    assert found[0] < found[1] < found[2]


def begin(driver: Driver, key: str | None = None, owner: str = "me") -> RunClaim:
    return driver.catalog.claim_new_run(RunKind.INSERT, "a", inserting("a", key), owner=owner, lease=LEASE)


def test_an_insert_begins_in_one_step_and_leaves_nothing_if_it_cannot(driver: Driver) -> None:
    claim = begin(driver, "k")
    assert (claim.run.state, claim.run.attempt) == (RunState.SUBMITTED, 1)
    before = driver.catalog.list_runs()
    with pytest.raises(InsertInProgress, match=f"run {claim.run.id}"):
        begin(driver, "k")
    assert driver.catalog.list_runs() == before
    driver.commit(claim)
    with pytest.raises(Conflict, match="already used"):
        begin(driver, "k")
    assert [r.state for r in driver.catalog.list_runs()] == [RunState.FINISHED]


def test_an_insert_whose_process_died_ends_and_its_key_is_free(driver: Driver) -> None:
    claim = begin(driver, "k")
    driver.clock.now += LEASE
    (ended,) = driver.catalog.reclaim_expired_runs()
    assert (ended.id, ended.state) == (claim.run.id, RunState.FAILED)
    driver.commit(begin(driver, "k"))
    assert driver.head() == 2


@pytest.mark.parametrize("kind", [RunKind.INSERT, RunKind.COMPACTION])
def test_runs_that_only_their_process_can_execute_do_not_wait_for_ever(driver: Driver, kind: RunKind) -> None:
    left = driver.request(kind, "a")
    flow = driver.request(RunKind.FLOW, "copy")
    assert driver.catalog.reclaim_expired_runs() == []  # it may be claimed any moment
    driver.clock.now += 3600
    (ended,) = driver.catalog.reclaim_expired_runs()
    assert (ended.id, ended.state) == (left, RunState.KILLED)
    assert driver.catalog.read_run(flow).state is RunState.READY


def test_a_run_that_another_server_reclaimed_meanwhile_stays_ready(
    driver: Driver, opened: Callable[[], SqlCatalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, other = driver.open_flow(), opened()
    driver.clock.now += LEASE
    found = runs.list_expired_runs

    def expired(connection: Connection, now: float) -> list[int]:
        late = found(connection, now)
        monkeypatch.undo()
        other.reclaim_expired_runs()
        return late

    monkeypatch.setattr(runs, "list_expired_runs", expired)
    assert driver.catalog.reclaim_expired_runs() == []
    assert driver.catalog.read_run(claim.run.id).state is RunState.READY


def test_a_process_gives_up_what_it_has_by_the_catalog_alone(driver: Driver, opened: Callable[[], SqlCatalog]) -> None:
    insert, kept, others = begin(driver, "k"), begin(driver), begin(driver, owner="other")
    flow = driver.open_flow()
    given_up = opened().reclaim_unknown_runs("me", keep={kept.run.id})
    assert {(r.id, r.state) for r in given_up} == {
        (insert.run.id, RunState.FAILED),
        (flow.run.id, RunState.READY),
    }
    assert driver.catalog.read_run(others.run.id).state is RunState.SUBMITTED
    driver.commit(kept)
    driver.commit(others)
    assert driver.head() == 3
