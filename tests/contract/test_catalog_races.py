"""Several threads at the same time, each with its own catalog object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier
from typing import Any

from tests.catalog.driver import COPY, LEASE, WORKFLOW, Driver, build_insert_request, moves_of

from tidemill.catalog import SqlCatalog
from tidemill.errors import Conflict, DuplicateKey, InsertInProgress
from tidemill.model.block import BlockState
from tidemill.model.run import RunClaim, RunKind, RunState, build_claim_request

OpenCatalog = Callable[[], SqlCatalog]


def run_concurrently(actions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Start the actions at the same time; returns their results or conflicts."""
    start = Barrier(len(actions))

    def run(action: Callable[[], Any]) -> Any:
        start.wait()
        try:
            return action()
        except (Conflict, InsertInProgress) as conflict:
            return conflict

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(run, actions))


def open_drivers(driver: Driver, open_another: OpenCatalog, count: int) -> list[Driver]:
    return [Driver(open_another(), driver.clock) for _ in range(count)]


def test_one_of_several_concurrent_claims_wins(driver: Driver, open_another: OpenCatalog) -> None:
    run = driver.request()
    results = run_concurrently(
        [lambda d=d: d.claim(run, build_insert_request()) for d in open_drivers(driver, open_another, 4)]
    )
    assert sum(isinstance(r, RunClaim) for r in results) == 1
    assert {str(r) for r in results if isinstance(r, Conflict)} == {
        f"run {run} is submitted, not ready; only a ready run can be claimed"
    }
    assert driver.catalog.channels.read("a").reserved == 1


def test_one_of_several_concurrent_runs_of_a_flow_wins(driver: Driver, open_another: OpenCatalog) -> None:
    waiting = [driver.request(RunKind.FLOW, "copy") for _ in range(4)]
    pairs = zip(open_drivers(driver, open_another, 4), waiting, strict=True)
    results = run_concurrently([lambda d=d, r=r: d.claim(r, build_claim_request(COPY)) for d, r in pairs])
    (winner,) = (r for r in results if isinstance(r, RunClaim))
    lost = [r for r in results if isinstance(r, Conflict)]
    assert len(lost) == 3
    assert all(f"run {winner.run.id} of flow 'copy' is already running" in str(r) for r in lost)


def test_one_of_several_concurrent_inserts_with_a_key_wins(driver: Driver, open_another: OpenCatalog) -> None:
    results = run_concurrently([lambda d=d: d.insert(key="k") for d in open_drivers(driver, open_another, 4)])
    rejected = [r for r in results if isinstance(r, DuplicateKey | InsertInProgress)]
    assert len(rejected) == 3
    assert driver.head() == 1


def test_concurrent_inserts_lose_nothing(driver: Driver, open_another: OpenCatalog) -> None:
    shared = Driver(open_another(), driver.clock)  # one catalog may serve several threads
    team = [*open_drivers(driver, open_another, 4), *[shared] * 4]
    run_concurrently([lambda d=d: [d.insert(channel) for channel in "abba"] for d in team])
    versions = []
    for channel in "ab":
        blocks = driver.catalog.blocks.list_deltas(channel, 0, 100)
        assert [b.seq for b in blocks] == list(range(1, 17))
        assert all(after.since == before.seq for before, after in pairwise(blocks))
        assert all(after.version > before.version for before, after in pairwise(blocks))
        versions += [b.version for b in blocks]
    assert len(set(versions)) == 32
    ids = [e.id for e in driver.catalog.events.list(limit=1000)]
    assert ids == sorted(set(ids))


def test_concurrent_flows_inserts_and_failures_are_consistent(driver: Driver, open_another: OpenCatalog) -> None:
    def consume(d: Driver) -> None:
        for _ in range(4):
            claim = d.open_flow()
            d.commit(claim, moves_of(claim))

    def kill_inserts(d: Driver) -> None:
        for _ in range(4):
            d.catalog.runs.kill(d.open_insert("a").run.id)

    def insert(d: Driver) -> None:
        for channel in "baab":
            d.insert(channel)

    results = run_concurrently(
        [
            lambda w=w, d=d: w(d)
            for w, d in zip((consume, kill_inserts, insert, insert), open_drivers(driver, open_another, 4), strict=True)
        ]
    )
    assert results == [None] * 4
    claim = driver.open_flow()
    driver.commit(claim, moves_of(claim))
    assert driver.catalog.channels.read_cursors()[0].position == driver.catalog.channels.read("a").head
    read = [
        r
        for run in driver.catalog.runs.list(subject="copy")
        for r in driver.catalog.runs.list_reads(run.id)
        if r.channel == "a"
    ]
    spans = sorted((r.since, r.upto) for r in read)
    assert spans[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    states = [b.state for b in driver.catalog.blocks.list("a", limit=100)]
    assert states.count(BlockState.CANCELLED) == 4


def test_a_commit_races_with_its_reclaim(driver: Driver, open_another: OpenCatalog) -> None:
    for _ in range(3):
        claim = driver.open_insert(attempts=5)
        driver.clock.now += LEASE - 0.001
        owner, reclaimer = open_drivers(driver, open_another, 2)

        def reclaim_late(reclaimer: Driver = reclaimer) -> object:
            driver.clock.now += 0.001
            return reclaimer.catalog.runs.reclaim_expired()

        run_concurrently([lambda o=owner, c=claim: o.commit(c), reclaim_late])
        (block,) = driver.catalog.blocks.list_written(claim.run.id)
        state = driver.catalog.runs.read(claim.run.id).state
        assert (state, block.state) in {
            (RunState.FINISHED, BlockState.FILLED),
            (RunState.READY, BlockState.CANCELLED),
        }


def test_concurrent_applies_agree(catalog: SqlCatalog, open_another: OpenCatalog) -> None:
    others = [open_another() for _ in range(4)]
    assert run_concurrently([lambda c=c: c.workflows.apply(WORKFLOW) for c in others]) == [None] * 4
    assert len(catalog.channels.list()) == 3
    assert len(catalog.events.list()) == 4


def test_overlapping_claims_do_not_deadlock(driver: Driver, open_another: OpenCatalog) -> None:
    def insert_both(d: Driver, order: str) -> None:
        for _ in range(5):
            claims = [d.open_insert(channel) for channel in order]
            for claim in claims:
                d.commit(claim)

    team = zip(open_drivers(driver, open_another, 4), ("ab", "ba", "ab", "ba"), strict=True)
    assert run_concurrently([lambda d=d, o=o: insert_both(d, o) for d, o in team]) == [None] * 4
    assert (driver.head("a"), driver.head("b")) == (20, 20)
