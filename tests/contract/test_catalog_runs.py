"""The life cycle of a run: every valid and every invalid transition."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.catalog.driver import COPY, LEASE, Driver, build_insert_request, build_outcome, moves_of

from tidemill.catalog import SqlCatalog
from tidemill.errors import ChannelBusy, Conflict, LeaseLost, NotFound
from tidemill.model.block import INITIAL_POSITION, BlockKind, BlockState
from tidemill.model.run import (
    ClaimRequest,
    ReadRequest,
    ReservationRequest,
    RunClaim,
    RunKind,
    RunState,
    build_claim_request,
)

Action = Callable[[SqlCatalog, RunClaim], object]

BY_OWNER: dict[str, Action] = {
    "renew": lambda c, claim: c.runs.renew_lease(claim.run.id, claim.run.fencing_token, lease=LEASE),
    "commit": lambda c, claim: c.runs.commit(claim, build_outcome(claim)),
    "fail": lambda c, claim: c.runs.fail(claim.run.id, claim.run.fencing_token, error="late"),
}
ENDINGS: dict[str, Action] = {
    "finished": BY_OWNER["commit"],
    "failed": BY_OWNER["fail"],
    "killed": lambda c, claim: c.runs.kill(claim.run.id),
}


def read_state(driver: Driver) -> object:
    """Everything that a transition might change."""
    c = driver.catalog
    return (
        c.channels.list(),
        c.blocks.list(limit=1000),
        c.runs.list(limit=1000),
        c.channels.read_cursors(),
        c.events.list(limit=1000),
        c.files.list_referenced(),
    )


def test_a_requested_run_is_ready(driver: Driver) -> None:
    run = driver.catalog.runs.request(RunKind.FLOW, "copy", attempts=3)
    assert (run.state, run.attempt, run.created, run.owner) == (RunState.READY, 0, driver.clock.now, None)
    assert driver.catalog.runs.read(run.id) == run
    assert driver.kinds_of_events(run.id) == ["run.requested"]


@pytest.mark.parametrize(
    ("kind", "subject"), [(RunKind.FLOW, "a"), (RunKind.INSERT, "copy"), (RunKind.COMPACTION, "x")]
)
def test_a_request_for_an_unknown_subject_is_rejected(driver: Driver, kind: RunKind, subject: str) -> None:
    with pytest.raises(NotFound, match=rf"there is no .*'{subject}'; known are (a, b, d|copy)"):
        driver.catalog.runs.request(kind, subject)


def test_a_claim_has_a_lease_reservations_and_spans(driver: Driver) -> None:
    driver.insert("a")
    driver.insert("b")
    claim = driver.open_flow()
    run = claim.run
    assert (run.state, run.attempt, run.owner) == (RunState.SUBMITTED, 1, "me")
    assert (run.started, run.lease_until) == (driver.clock.now, driver.clock.now + LEASE)
    assert claim.directory == f"runs/{run.id}/{run.fencing_token}"
    assert driver.catalog.files.list_active_directories() == {claim.directory}
    slot = claim.reservations["copying", "d"]
    assert (slot.channel, slot.seq, slot.kind, slot.task) == ("d", 1, BlockKind.DELTA, "copying")
    assert driver.catalog.blocks.read(slot.block).state is BlockState.RESERVED
    a, b = claim.spans["copying", "a"], claim.spans["copying", "b"]
    assert (a.since, a.upto) == (INITIAL_POSITION, driver.catalog.channels.read("a").head)
    assert b.since == b.upto == driver.catalog.channels.read("b").head
    assert driver.catalog.channels.read("d").reserved == 1
    assert driver.kinds_of_events(run.id) == ["run.requested", "run.claimed"]


def test_blocks_are_reserved_in_the_order_of_claims(driver: Driver) -> None:
    first, second = driver.request(), driver.request()
    later = driver.claim(second, build_insert_request())
    demand = ClaimRequest(
        reservations=(
            ReservationRequest("x", "a", BlockKind.DELTA),
            ReservationRequest("y", "b", BlockKind.BASE),
            ReservationRequest("z", "a", BlockKind.DELTA),
        )
    )
    claim = driver.claim(first, demand)
    assert later.reservations[None, "a"].seq == 1
    assert [(s.channel, s.seq, s.kind) for s in claim.reservations.values()] == [
        ("a", 2, "delta"),
        ("b", 1, "base"),
        ("a", 3, "delta"),
    ]
    assert claim.run.fencing_token > later.run.fencing_token


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_ended_run_cannot_change(driver: Driver, ending: str) -> None:
    claim = driver.open_insert()
    ENDINGS[ending](driver.catalog, claim)
    before = read_state(driver)
    with pytest.raises(Conflict, match=f"run {claim.run.id} is {ending}"):
        driver.claim(claim.run.id, build_insert_request())
    with pytest.raises(Conflict, match=f"run {claim.run.id} is {ending}"):
        driver.catalog.runs.kill(claim.run.id)
    for act in BY_OWNER.values():
        with pytest.raises(LeaseLost, match=f"is {ending}"):
            act(driver.catalog, claim)
    assert read_state(driver) == before


def test_a_running_run_cannot_be_claimed(driver: Driver) -> None:
    claim = driver.open_insert()
    with pytest.raises(Conflict, match="is submitted, not ready"):
        driver.claim(claim.run.id, build_insert_request())


@pytest.mark.parametrize("action", BY_OWNER)
def test_a_ready_run_has_no_owner(driver: Driver, action: str) -> None:
    claim = driver.open_insert(attempts=2)
    driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="x", retry_in=0)
    before = read_state(driver)
    with pytest.raises(LeaseLost, match="is ready"):
        BY_OWNER[action](driver.catalog, claim)
    assert read_state(driver) == before


@pytest.mark.parametrize("action", BY_OWNER)
def test_a_process_whose_lease_was_reclaimed_changes_nothing(driver: Driver, action: str) -> None:
    stopped = driver.open_insert(attempts=2)
    driver.clock.now += LEASE
    driver.catalog.runs.reclaim_expired()
    successor = driver.claim(stopped.run.id, build_insert_request(), owner="successor")
    assert successor.run.fencing_token > stopped.run.fencing_token
    assert successor.directory != stopped.directory
    before = read_state(driver)
    with pytest.raises(LeaseLost, match="claimed again by successor"):
        BY_OWNER[action](driver.catalog, stopped)
    assert read_state(driver) == before
    assert [b.seq for b in driver.commit(successor)] == [2]


def test_unknown_runs_are_not_found(driver: Driver) -> None:
    catalog = driver.catalog
    for ask in (
        catalog.runs.read,
        catalog.runs.kill,
        catalog.runs.read_log,
        catalog.runs.list_reads,
        catalog.blocks.list_written,
    ):
        with pytest.raises(NotFound, match="there is no run 99; there are none yet"):
            ask(99)
    driver.request()
    with pytest.raises(NotFound, match="there is no run 99; the newest is 1"):
        driver.claim(99, ClaimRequest())


def test_a_run_with_an_expired_lease_cannot_commit(driver: Driver) -> None:
    claim = driver.open_insert()
    driver.clock.now += LEASE
    with pytest.raises(LeaseLost, match=r"expired 0\.0 s ago"):
        driver.commit(claim)
    assert driver.catalog.runs.read(claim.run.id).state is RunState.SUBMITTED
    assert driver.head() == 0


def test_a_run_with_a_renewed_lease_can_commit(driver: Driver) -> None:
    claim = driver.open_insert()
    driver.clock.now += LEASE - 1
    driver.catalog.runs.renew_lease(claim.run.id, claim.run.fencing_token, lease=LEASE)
    driver.clock.now += LEASE - 1
    assert driver.catalog.runs.reclaim_expired() == []
    driver.commit(claim)
    assert driver.head() == 1


def test_a_failed_attempt_cancels_its_reservations_and_is_retried(driver: Driver) -> None:
    claim = driver.open_insert(attempts=2)
    run = driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="disk full", log="one", retry_in=5)
    assert (run.state, run.error, run.not_before) == (RunState.WAITING, "disk full", driver.clock.now + 5)
    assert driver.catalog.blocks.list_written(run.id)[0].state is BlockState.CANCELLED
    with pytest.raises(Conflict, match=r"retried in 5\.000 s"):
        driver.claim(run.id, build_insert_request())
    driver.clock.now += 5
    again = driver.claim(run.id, build_insert_request())
    assert (again.run.attempt, again.run.error, again.run.not_before) == (2, None, None)
    driver.commit(again, log="two")
    assert driver.catalog.runs.read_log(run.id) == "one\ntwo"
    kinds = driver.kinds_of_events(run.id)
    attempts = ["run.retried", "files.marked", "block.cancelled", "run.claimed"]
    assert kinds[2:] == [*attempts, "run.finished", "block.filled", "channel.advanced"]


def test_a_run_fails_with_its_last_attempt(driver: Driver) -> None:
    claim = driver.open_insert(attempts=1)
    run = driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="no", retry_in=0)
    assert (run.state, run.finished, run.lease_until) == (RunState.FAILED, driver.clock.now, None)
    assert driver.kinds_of_events(run.id)[2:] == ["run.failed", "files.marked", "block.cancelled"]


def test_a_failure_without_retry_delay_is_final(driver: Driver) -> None:
    claim = driver.open_insert(attempts=9)
    assert driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="bad input").state is RunState.FAILED


def test_error_texts_may_contain_any_character(driver: Driver) -> None:
    claim = driver.open_insert()
    driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="a\x00b", log="c\udc80d")
    assert driver.catalog.runs.read(claim.run.id).error == "a\ufffdb"
    assert driver.catalog.runs.read_log(claim.run.id) == "c?d"


@pytest.mark.parametrize("started", [False, True])
def test_a_run_can_be_killed(driver: Driver, started: bool) -> None:
    run = driver.request()
    if started:
        driver.claim(run, build_insert_request())
    killed = driver.catalog.runs.kill(run)
    assert (killed.state, killed.finished) == (RunState.KILLED, driver.clock.now)
    assert driver.catalog.channels.read("a").reserved == 0
    assert driver.catalog.files.list_active_directories() == set()


def test_only_expired_runs_are_reclaimed(driver: Driver) -> None:
    often, once = driver.open_insert(attempts=2), driver.open_insert()
    driver.clock.now += 1
    healthy = driver.open_insert()
    driver.clock.now += LEASE - 1
    reclaimed = driver.catalog.runs.reclaim_expired()
    assert [(r.id, r.state) for r in reclaimed] == [(often.run.id, RunState.READY), (once.run.id, RunState.FAILED)]
    assert reclaimed[1].error == "lease expired: me did not renew it and is 0.0 s late"
    assert driver.catalog.runs.read(healthy.run.id).state is RunState.SUBMITTED
    assert driver.claim(often.run.id, build_insert_request()).run.attempt == 2


def test_a_flow_has_one_active_run(driver: Driver) -> None:
    running = driver.open_flow()
    waiting = driver.request(RunKind.FLOW, "copy")
    with pytest.raises(Conflict, match=f"run {running.run.id} of flow 'copy' is already running"):
        driver.claim(waiting, build_claim_request(COPY))
    driver.commit(running, moves_of(running))
    driver.claim(waiting, build_claim_request(COPY))


def test_inserts_run_concurrently(driver: Driver) -> None:
    assert [driver.open_insert().reservations[None, "a"].seq for _ in range(3)] == [1, 2, 3]


def test_reading_a_channel_that_the_run_writes_needs_exclusive_access(driver: Driver) -> None:
    other = driver.open_insert("a")
    run = driver.request(RunKind.FLOW, "copy")
    through = ClaimRequest(
        reservations=(ReservationRequest("t", "a", BlockKind.DELTA),), intermediate_channels=frozenset({"a"})
    )
    before = read_state(driver)
    with pytest.raises(ChannelBusy, match=f"run {other.run.id} holds a reservation on channel 'a'"):
        driver.claim(run, through)
    assert read_state(driver) == before
    driver.catalog.runs.kill(other.run.id)
    assert driver.claim(run, through).reservations["t", "a"].seq == 2


def test_a_claim_of_an_unknown_channel_is_rejected(driver: Driver) -> None:
    run = driver.request()
    before = read_state(driver)
    for demand in (
        build_insert_request("zz"),
        ClaimRequest(reads=(ReadRequest("t", "zz", False),)),
        ClaimRequest(intermediate_channels=frozenset({"zz"})),
    ):
        with pytest.raises(NotFound, match="there is no channel 'zz'; known are a, b, d"):
            driver.claim(run, demand)
    assert read_state(driver) == before


def test_runs_are_listed_newest_first(driver: Driver) -> None:
    finished = driver.open_insert("a")
    driver.commit(finished)
    ready, other = driver.request(), driver.request(subject="b")
    catalog = driver.catalog
    assert [r.id for r in catalog.runs.list()] == [other, ready, finished.run.id]
    assert [r.id for r in catalog.runs.list(limit=1)] == [other]
    assert [r.id for r in catalog.runs.list(state=RunState.READY, subject="a")] == [ready]
    assert [r.id for r in catalog.runs.list(state=RunState.FINISHED)] == [finished.run.id]


def test_a_run_can_be_acquired_before_its_reservations_are_known(driver: Driver) -> None:
    run = driver.request(RunKind.FLOW, COPY.name)
    acquired = driver.catalog.runs.acquire(run, owner="me", lease=LEASE)
    assert (acquired.state, acquired.attempt, acquired.owner) == (RunState.CLAIMED, 1, "me")
    other = driver.request(RunKind.FLOW, COPY.name)
    for rejected in (run, other):
        with pytest.raises(Conflict):
            driver.claim(rejected, build_claim_request(COPY))
    claim = driver.catalog.runs.claim(
        run, build_claim_request(COPY), owner="me", lease=LEASE, fencing_token=acquired.fencing_token
    )
    assert (claim.run.state, claim.run.attempt) == (RunState.SUBMITTED, 1)
    assert claim.run.fencing_token > acquired.fencing_token
    driver.catalog.runs.mark_running(run, claim.run.fencing_token)
    assert driver.catalog.runs.read(run).state is RunState.RUNNING
    driver.commit(claim)
    assert driver.catalog.runs.read(run).state is RunState.FINISHED


def test_an_acquired_run_can_be_returned_and_waits(driver: Driver) -> None:
    run = driver.request(RunKind.FLOW, COPY.name)
    acquired = driver.catalog.runs.acquire(run, owner="me", lease=LEASE)
    driver.catalog.runs.release(run, acquired.fencing_token, seconds=5)
    returned = driver.catalog.runs.read(run)
    assert (returned.state, returned.attempt, returned.owner) == (RunState.WAITING, 0, None)
    assert driver.catalog.runs.list_runnable() == []
    driver.clock.now += 5
    assert [r.id for r in driver.catalog.runs.list_runnable()] == [run]
    with pytest.raises(LeaseLost):
        driver.catalog.runs.claim(
            run, build_claim_request(COPY), owner="me", lease=LEASE, fencing_token=acquired.fencing_token
        )


def test_the_lease_of_an_acquired_run_expires(driver: Driver) -> None:
    run = driver.request(RunKind.FLOW, COPY.name, attempts=2)
    driver.catalog.runs.acquire(run, owner="dead", lease=LEASE)
    driver.clock.now += LEASE + 1
    (given_up,) = driver.catalog.runs.reclaim_expired()
    assert (given_up.id, given_up.state) == (run, RunState.READY)


def test_a_run_reads_up_to_the_given_limit(driver: Driver) -> None:
    for _ in range(3):
        driver.insert("a")
    driver.insert("b")
    run = driver.request(RunKind.FLOW, COPY.name)
    claim = driver.claim(run, build_claim_request(COPY, {("copying", "a"): 2}))
    assert claim.spans["copying", "a"].upto.seq == 2
    driver.catalog.runs.kill(run)
    beyond = driver.request(RunKind.FLOW, COPY.name)
    with pytest.raises(Conflict, match="cannot be read at 9"):
        driver.claim(beyond, build_claim_request(COPY, {("copying", "a"): 9}))
