"""Attempts that are lost through no fault of the tasks are not charged, and their work stays due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.catalog.driver import (
    CHANNELS,
    COPY,
    LEASE,
    Driver,
    FakeClock,
    build_insert_request,
    build_outcome,
    moves_of,
    task,
)

from tidemill.catalog import SqlCatalog
from tidemill.errors import Conflict, InsertInProgress
from tidemill.model.block import BlockKind
from tidemill.model.flow import BoundFlow
from tidemill.model.run import MAX_LOST_ATTEMPTS, RunClaim, RunKind, RunState, build_claim_request
from tidemill.model.task import ReadMode
from tidemill.model.trigger import AllOfTrigger, DataTrigger, LagTrigger, RunTrigger, Trigger
from tidemill.model.workflow import WorkflowSpec

OTHER = BoundFlow("other", (task("others", {"b": ReadMode.NEW}, {"e": BlockKind.DELTA}),))


def apply_triggers(driver: Driver, *triggers: Trigger, other: tuple[Trigger, ...] = ()) -> None:
    bindings = (replace(COPY, triggers=triggers), replace(OTHER, triggers=other))
    channels = (*CHANNELS, replace(CHANNELS[2], name="e"))
    driver.catalog.workflows.apply(WorkflowSpec("w", channels, bindings))


def fire_due_triggers(driver: Driver) -> list[int]:
    return [
        run for leaf in driver.catalog.triggers.list_due() if (run := driver.catalog.triggers.fire(leaf)) is not None
    ]


def lose_attempts(driver: Driver, run: int, binding: BoundFlow = COPY, times: int = MAX_LOST_ATTEMPTS + 1) -> RunState:
    """Claim a run this many times and lose each attempt."""
    for _ in range(times):
        claim = driver.claim(run, build_claim_request(binding))
        driver.catalog.runs.fail(run, claim.run.fencing_token, error="the engine is gone", retry_in=0.0, is_lost=True)
    return driver.catalog.runs.read(run).state


def list_waiting_flows(driver: Driver) -> list[tuple[str, float]]:
    """The flows with a pending run, and its delay in seconds."""
    all_runs = driver.catalog.runs.list(limit=1000)
    pending = [r for r in all_runs if r.state in (RunState.WAITING, RunState.READY)]
    return [(r.subject, max(0.0, (r.not_before or 0.0) - driver.clock.now)) for r in pending]


def test_lost_attempts_are_not_charged_to_the_tasks(driver: Driver) -> None:
    run = driver.request(RunKind.FLOW, "copy", attempts=2)
    assert lose_attempts(driver, run, times=2) is RunState.READY
    states = []
    for _ in range(2):
        claim = driver.claim(run, build_claim_request(COPY))
        states.append(driver.catalog.runs.fail(run, claim.run.fencing_token, error="bad", retry_in=0.0).state)
    assert states == [RunState.READY, RunState.FAILED]
    assert (driver.catalog.runs.read(run).attempt, driver.catalog.runs.read(run).lost_attempts) == (4, 2)


def test_a_run_that_loses_too_many_attempts_fails(driver: Driver) -> None:
    run = driver.request(RunKind.FLOW, "copy", attempts=9)
    assert lose_attempts(driver, run, times=MAX_LOST_ATTEMPTS) is RunState.READY
    assert lose_attempts(driver, run, times=1) is RunState.FAILED


def test_a_run_loses_an_attempt_when_its_server_dies(driver: Driver) -> None:
    claim = driver.open_flow()
    driver.clock.now += LEASE
    (reclaimed,) = driver.catalog.runs.reclaim_expired()
    assert (reclaimed.id, reclaimed.state, reclaimed.lost_attempts) == (claim.run.id, RunState.READY, 1)


@pytest.mark.parametrize(
    ("triggers", "inserted"),
    [
        ((DataTrigger("a"),), "a"),
        ((DataTrigger("a", rows=2),), "a"),
        ((AllOfTrigger((DataTrigger("a"), DataTrigger("b"))),), "ab"),
    ],
    ids=["data", "rows", "compound"],
)
def test_a_firing_stays_due_when_its_run_is_lost(
    driver: Driver, clock: FakeClock, triggers: tuple[Trigger, ...], inserted: str
) -> None:
    apply_triggers(driver, *triggers)
    for channel in inserted:
        driver.insert(channel)
    (run,) = fire_due_triggers(driver)
    assert lose_attempts(driver, run) is RunState.FAILED
    assert fire_due_triggers(driver) == []
    ((flow, wait),) = list_waiting_flows(driver)
    assert flow == "copy"
    assert 0 < wait <= 60
    assert driver.catalog.runs.list_runnable() == []
    clock.now += wait
    (again,) = driver.catalog.runs.list_runnable()
    assert [(f.run, f.trigger) for f in driver.catalog.triggers.list_firings()] == [(again.id, triggers[0])]
    claim = driver.claim(again.id, build_claim_request(COPY))
    driver.commit(claim, moves_of(claim))
    assert list_waiting_flows(driver) == []


def test_a_flow_triggered_by_another_stays_due_when_its_run_is_lost(driver: Driver) -> None:
    apply_triggers(driver, DataTrigger("a"), other=(RunTrigger("copy"),))
    driver.insert("a")
    (run,) = fire_due_triggers(driver)
    driver.commit(driver.claim(run, build_claim_request(COPY)))
    (following,) = fire_due_triggers(driver)
    assert lose_attempts(driver, following, OTHER) is RunState.FAILED
    assert [flow for flow, _ in list_waiting_flows(driver)] == ["other"]


def test_the_wait_of_a_repeatedly_lost_flow_increases(driver: Driver, clock: FakeClock) -> None:
    apply_triggers(driver, DataTrigger("a"))
    driver.insert("a")
    (run,) = fire_due_triggers(driver)
    delays = []
    for _ in range(8):
        assert lose_attempts(driver, run) is RunState.FAILED
        ((_, wait),) = list_waiting_flows(driver)
        delays.append(wait)
        clock.now += wait
        (run,) = (r.id for r in driver.catalog.runs.list_runnable())
    assert delays == sorted(delays)
    assert delays[0] < delays[1] < delays[2]
    assert delays[-1] == delays[-2] <= 600
    driver.commit(driver.claim(run, build_claim_request(COPY)))
    driver.insert("a")
    (run,) = fire_due_triggers(driver)
    lose_attempts(driver, run)
    assert list_waiting_flows(driver) == [("copy", delays[0])]  # it counts from the last success


def test_new_data_does_not_wait_for_a_lost_run(driver: Driver) -> None:
    apply_triggers(driver, DataTrigger("a"))
    driver.insert("a")
    (run,) = fire_due_triggers(driver)
    lose_attempts(driver, run)
    (pending,) = [r.id for r in driver.catalog.runs.list(state=RunState.WAITING)]
    driver.insert("a")
    assert fire_due_triggers(driver) == [pending]
    assert [r.id for r in driver.catalog.runs.list_runnable()] == [pending]


def test_a_run_that_its_tasks_failed_waits_for_new_data(driver: Driver) -> None:
    apply_triggers(driver, DataTrigger("a"))
    driver.insert("a")
    (run,) = fire_due_triggers(driver)
    claim = driver.claim(run, build_claim_request(COPY))
    driver.catalog.runs.fail(run, claim.run.fencing_token, error="bad word")
    assert list_waiting_flows(driver) == []
    driver.insert("a")
    assert len(fire_due_triggers(driver)) == 1


def test_a_lost_run_without_a_trigger_is_not_repeated(driver: Driver) -> None:
    run = driver.request(RunKind.FLOW, "copy")
    assert lose_attempts(driver, run) is RunState.FAILED
    assert list_waiting_flows(driver) == []


def test_data_that_a_run_left_unread_stays_due_when_the_next_run_is_lost(driver: Driver, clock: FakeClock) -> None:
    apply_triggers(driver, DataTrigger("a"))
    driver.insert("a")
    driver.insert("a")
    (run,) = fire_due_triggers(driver)
    claim = driver.claim(run, build_claim_request(COPY))
    driver.catalog.runs.commit(claim, replace(build_outcome(claim, moves_of(claim)), backlog_since=clock.now))
    (following,) = (r.id for r in driver.catalog.runs.list_runnable())
    assert lose_attempts(driver, following) is RunState.FAILED
    ((flow, wait),) = list_waiting_flows(driver)
    assert flow == "copy"
    clock.now += wait
    assert [r.due for r in driver.catalog.runs.list_runnable()] == [clock.now - wait]


def test_a_lost_freshness_target_stays_due_with_increasing_waits(driver: Driver, clock: FakeClock) -> None:
    apply_triggers(driver, LagTrigger("a", 10.0))
    driver.insert("a")
    clock.now += 10
    delays = []
    for _ in range(3):
        (run,) = fire_due_triggers(driver)
        assert lose_attempts(driver, run) is RunState.FAILED
        assert list_waiting_flows(driver) == []  # the target itself is due again
        (leaf,) = driver.catalog.triggers.list()
        assert leaf.due is not None
        delays.append(leaf.due - clock.now)
        clock.now = leaf.due
    assert delays[0] < delays[1] < delays[2]


def claim_insert(driver: Driver, key: str | None = None, owner: str = "me") -> RunClaim:
    return driver.catalog.runs.claim_new(RunKind.INSERT, "a", build_insert_request("a", key), owner=owner, lease=LEASE)


def test_an_insert_is_claimed_in_one_step_or_not_at_all(driver: Driver) -> None:
    claim = claim_insert(driver, "k")
    assert (claim.run.state, claim.run.attempt) == (RunState.SUBMITTED, 1)
    before = driver.catalog.runs.list()
    with pytest.raises(InsertInProgress, match=f"run {claim.run.id}"):
        claim_insert(driver, "k")
    assert driver.catalog.runs.list() == before
    driver.commit(claim)
    with pytest.raises(Conflict, match="already used"):
        claim_insert(driver, "k")
    assert [r.state for r in driver.catalog.runs.list()] == [RunState.FINISHED]


def test_an_insert_whose_process_died_fails_and_releases_its_key(driver: Driver) -> None:
    claim = claim_insert(driver, "k")
    driver.clock.now += LEASE
    (ended,) = driver.catalog.runs.reclaim_expired()
    assert (ended.id, ended.state) == (claim.run.id, RunState.FAILED)
    driver.commit(claim_insert(driver, "k"))
    assert driver.head() == 2


@pytest.mark.parametrize("kind", [RunKind.INSERT, RunKind.COMPACTION])
def test_unclaimed_runs_of_a_dead_process_are_killed(driver: Driver, kind: RunKind) -> None:
    unclaimed = driver.request(kind, "a")
    flow = driver.request(RunKind.FLOW, "copy")
    assert driver.catalog.runs.reclaim_expired() == []  # it may still be claimed
    driver.clock.now += 3600
    (ended,) = driver.catalog.runs.reclaim_expired()
    assert (ended.id, ended.state) == (unclaimed, RunState.KILLED)
    assert driver.catalog.runs.read(flow).state is RunState.READY


def test_a_run_that_another_server_reclaimed_meanwhile_stays_ready(
    driver: Driver, open_another: Callable[[], SqlCatalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, other = driver.open_flow(), open_another()
    driver.clock.now += LEASE
    runs = driver.catalog.runs
    list_expired = runs._list_expired  # type: ignore[attr-defined]

    def list_and_reclaim() -> list[int]:
        late: list[int] = list_expired()
        monkeypatch.undo()
        other.runs.reclaim_expired()
        return late

    monkeypatch.setattr(runs, "_list_expired", list_and_reclaim)
    assert driver.catalog.runs.reclaim_expired() == []
    assert driver.catalog.runs.read(claim.run.id).state is RunState.READY


def test_runs_that_their_process_does_not_know_are_reclaimed(
    driver: Driver, open_another: Callable[[], SqlCatalog]
) -> None:
    insert, known, others = claim_insert(driver, "k"), claim_insert(driver), claim_insert(driver, owner="other")
    flow = driver.open_flow()
    reclaimed = open_another().runs.reclaim_owned("me", error="gone", keep={known.run.id})
    assert {(r.id, r.state) for r in reclaimed} == {
        (insert.run.id, RunState.FAILED),
        (flow.run.id, RunState.READY),
    }
    assert driver.catalog.runs.read(others.run.id).state is RunState.SUBMITTED
    driver.commit(known)
    driver.commit(others)
    assert driver.head() == 3
