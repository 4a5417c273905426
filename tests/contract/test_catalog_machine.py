"""Random histories of overlapping runs, compared with a model in plain Python."""

from __future__ import annotations

import os
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.catalog.driver import COPY, LEASE, WORKFLOW, Driver, FakeClock, build_insert_request, moves_of

from tidemill.catalog import open_catalog
from tidemill.errors import Conflict, LeaseLost
from tidemill.model.block import Block, BlockKind, BlockState, ChannelPosition, link_block
from tidemill.model.run import MAX_LOST_ATTEMPTS, RunClaim, RunKind, RunState, build_claim_request

ATTEMPTS = 3


class Histories(RuleBasedStateMachine):
    """The model: the state of every block in order, the cursor, and the outcome of each claim."""

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        clock = FakeClock()
        catalog = open_catalog(f"sqlite:///{Path(self.directory.name) / 'catalog.db'}", clock)
        catalog.workflows.apply(WORKFLOW)
        self.driver = Driver(catalog, clock)
        self.blocks_by_channel: dict[str, list[BlockState]] = {"a": [BlockState.FILLED], "d": [BlockState.FILLED]}
        self.cursor = 0
        self.alive: dict[int, RunClaim] = {}  # by fencing token: claims that are still valid
        self.leases: dict[int, float] = {}
        self.ready: dict[int, int] = {}  # runs that will be retried, and their attempts so far
        self.lost: dict[int, int] = {}  # by run: the number of lost attempts

    def teardown(self) -> None:
        self.driver.catalog.close()
        self.directory.cleanup()

    def _record_claim(self, claim: RunClaim) -> RunClaim:
        (reservation,) = claim.reservations.values()
        assert reservation.seq == len(self.blocks_by_channel[reservation.channel])
        self.blocks_by_channel[reservation.channel].append(BlockState.RESERVED)
        assert all(claim.run.fencing_token > fence for fence in self.leases)
        self.alive[claim.run.fencing_token] = claim
        self.leases[claim.run.fencing_token] = self.driver.clock.now + LEASE
        self.ready.pop(claim.run.id, None)
        return claim

    def _record_end(self, claim: RunClaim, state: BlockState) -> None:
        (reservation,) = claim.reservations.values()
        self.blocks_by_channel[reservation.channel][reservation.seq] = state
        del self.alive[claim.run.fencing_token]

    def _record_failure(self, claim: RunClaim, again: bool, lost: bool = False) -> None:
        self._record_end(claim, BlockState.CANCELLED)
        run, before = claim.run, self.lost.get(claim.run.id, 0)
        given_back = lost and run.kind is RunKind.FLOW
        if again and (before < MAX_LOST_ATTEMPTS if given_back else run.attempt - before < ATTEMPTS):
            self.ready[run.id] = run.attempt
        self.lost[run.id] = before + given_back

    @rule(target=claims, kind=st.sampled_from(BlockKind))
    def insert(self, kind: BlockKind) -> RunClaim:
        return self._record_claim(self.driver.open_insert("a", kind=kind, attempts=ATTEMPTS))

    @rule(target=claims)
    def flow(self) -> RunClaim | None:
        run = self.driver.request(RunKind.FLOW, "copy", ATTEMPTS)
        return self._flow(run)

    def _flow(self, run: int) -> RunClaim | None:
        if any(claim.run.kind is RunKind.FLOW for claim in self.alive.values()):
            with pytest.raises(Conflict, match="already running"):
                self.driver.claim(run, build_claim_request(COPY))
            self.driver.catalog.runs.kill(run)
            self.ready.pop(run, None)
            return None
        claim = self._record_claim(self.driver.claim(run, build_claim_request(COPY)))
        span = claim.spans["copying", "a"]
        assert (span.since.seq, span.upto.seq) == (self.cursor, self._visible("a")[-1])
        return claim

    @rule(target=claims, data=st.data())
    def try_again(self, data: st.DataObject) -> RunClaim | None:
        if not self.ready:
            return None
        run, attempts = data.draw(st.sampled_from(sorted(self.ready.items())))
        pending = self.driver.catalog.runs.read(run)
        if pending.not_before is not None and pending.not_before > self.driver.clock.now:  # the clock was set back
            with pytest.raises(Conflict, match="can be retried in"):
                self.driver.claim(
                    run, build_claim_request(COPY) if pending.kind is RunKind.FLOW else build_insert_request("a")
                )
            return None
        if pending.kind is RunKind.FLOW:
            return self._flow(run)
        claim = self._record_claim(self.driver.claim(run, build_insert_request("a")))
        assert claim.run.attempt == attempts + 1
        return claim

    @rule(claim=claims)
    def commit(self, claim: RunClaim | None) -> None:
        if claim is None:
            return
        moves = moves_of(claim)
        if claim.run.fencing_token not in self.alive or self.leases[claim.run.fencing_token] <= self.driver.clock.now:
            with pytest.raises(LeaseLost):
                self.driver.commit(claim, moves)
            return
        self.driver.commit(claim, moves)
        self._record_end(claim, BlockState.FILLED)
        self.cursor = moves[0].upto.seq if moves else self.cursor

    @rule(claim=claims, again=st.booleans(), lost=st.booleans())
    def fail(self, claim: RunClaim | None, again: bool, lost: bool) -> None:
        if claim is None:
            return
        run, fence = claim.run.id, claim.run.fencing_token
        if fence not in self.alive:
            with pytest.raises(LeaseLost):
                self.driver.catalog.runs.fail(run, fence, error="x")
            return
        self.driver.catalog.runs.fail(run, fence, error="x", retry_in=0 if again else None, is_lost=lost)
        self._record_failure(claim, again, lost)

    @rule(claim=claims)
    def kill(self, claim: RunClaim | None) -> None:
        if claim is None:
            return
        run = claim.run.id
        holder = next((c for c in self.alive.values() if c.run.id == run), None)
        if holder is None and run not in self.ready:
            with pytest.raises(Conflict):
                self.driver.catalog.runs.kill(run)
            return
        self.driver.catalog.runs.kill(run)
        self.ready.pop(run, None)
        if holder is not None:
            self._record_failure(holder, again=False)

    @rule(claim=claims)
    def renew(self, claim: RunClaim | None) -> None:
        if claim is not None and claim.run.fencing_token in self.alive:
            self.driver.catalog.runs.renew_lease(claim.run.id, claim.run.fencing_token, lease=LEASE)
            self.leases[claim.run.fencing_token] = self.driver.clock.now + LEASE

    @rule(seconds=st.sampled_from([-1.0, 0.000_000_5, LEASE / 2]))
    def wait(self, seconds: float) -> None:
        self.driver.clock.now += seconds

    @rule()
    def reclaim(self) -> None:
        late = {f: c for f, c in self.alive.items() if self.leases[f] <= self.driver.clock.now}
        reclaimed = self.driver.catalog.runs.reclaim_expired()
        assert {run.id for run in reclaimed} == {claim.run.id for claim in late.values()}
        for claim in late.values():
            self._record_failure(claim, again=True, lost=True)

    def _visible(self, channel: str) -> list[int]:
        """Filled blocks before the first reserved one."""
        states = self.blocks_by_channel[channel]
        end = states.index(BlockState.RESERVED) if BlockState.RESERVED in states else len(states)
        return [seq for seq in range(end) if states[seq] is BlockState.FILLED]

    @invariant()
    def blocks_are_as_expected(self) -> None:
        for channel, states in self.blocks_by_channel.items():
            blocks = self.driver.catalog.blocks.list(channel, limit=1000)[::-1]
            assert [b.state for b in blocks] == states
            visible = [blocks[seq] for seq in self._visible(channel)]
            self._check_prefix(channel, visible)
            self._check_links(visible)
            versions = [b.version for b in blocks if b.version is not None]
            assert versions == sorted(set(versions))
            assert len(versions) == (len(visible) - 1 if channel == "a" else 0)

    def _check_prefix(self, channel: str, visible: list[Block]) -> None:
        newest_base = max(n for n, block in enumerate(visible) if block.kind is BlockKind.BASE)
        assert self.driver.catalog.blocks.read_base_and_deltas(channel, 1000) == visible[newest_base:]
        registered = self.driver.catalog.channels.read(channel)
        assert registered.head == ChannelPosition(
            visible[-1].seq, visible[-1].channel_provenance, visible[-1].content_identity
        )
        assert registered.reserved == self.blocks_by_channel[channel].count(BlockState.RESERVED)

    def _check_links(self, visible: list[Block]) -> None:
        for before, after in pairwise(visible):
            position = ChannelPosition(before.seq, before.channel_provenance, before.content_identity)
            assert link_block(position, after) == after

    @invariant()
    def the_cursor_is_where_the_last_commit_left_it(self) -> None:
        positions = [c.position.seq for c in self.driver.catalog.channels.read_cursors("a")]
        assert positions in ([self.cursor], [])
        assert positions or self.cursor == 0

    @invariant()
    def only_claims_that_count_are_running(self) -> None:
        running = {run.id for run in self.driver.catalog.runs.list(state=RunState.SUBMITTED, limit=1000)}
        assert running == {claim.run.id for claim in self.alive.values()}


EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", "96")) // 16


@pytest.mark.timeout(900)
def test_random_histories() -> None:
    run_state_machine_as_test(
        Histories, settings=settings(max_examples=EXAMPLES, stateful_step_count=20, deadline=None, database=None)
    )
