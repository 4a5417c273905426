"""Executing runs: claim, perform, commit; on failure cancel, and perhaps try again.

The protocol is that of ARCHITECTURE section 5. Whatever happens between claim and commit, nothing is visible
before the commit and everything is visible after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from tidemill.errors import CatalogError, ChannelBusy, Conflict, LeaseLost, RunKilled, TidemillError
from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.model.flow import BoundFlow
from tidemill.model.run import TO_COME, ClaimRequest, Run, RunClaim, RunKind, RunOutcome, build_claim_request
from tidemill.ports.catalog import CatalogWriter
from tidemill.ports.engine import Engine, Progress
from tidemill.ports.storage import BlockStore
from tidemill.runtime.runs.claims import ProcessRuns
from tidemill.runtime.runs.flow import FlowAttempt, Told, format_tag
from tidemill.runtime.runs.lease import Lease
from tidemill.runtime.runs.log import RunLog

T = TypeVar("T")
Upto = Mapping[tuple[str, str], int]
"""By task and channel, the sequence number up to which it is read."""

ALL_THERE_IS: Upto = MappingProxyType({})
NOTHING_TOLD: Told = MappingProxyType({})

Perform = Callable[[RunClaim, RunLog, Lease], RunOutcome]
Commit = Callable[[RunClaim, RunLog, Lease], T]


@dataclass(frozen=True, slots=True)
class Executor:
    """Executes runs in this process under the name `owner`."""

    catalog: CatalogWriter
    store: BlockStore
    engine: Engine
    owner: str
    lease: float = 30.0  # seconds
    busy: float = 60.0  # seconds to wait for another run's slot on a channel that a run must read through
    sleep: Callable[[float], None] = time.sleep
    own: ProcessRuns = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "own", ProcessRuns(self.catalog, self.owner))

    def run_flow(
        self,
        binding: BoundFlow,
        updates: Mapping[str, Updates],
        progress: Progress | None = None,
        *,
        upto: Upto = ALL_THERE_IS,
        told: Told = NOTHING_TOLD,
    ) -> tuple[Run, list[Block]]:
        """Run a bound flow to its end, with the retries that its tasks allow.

        A run of it that a dead process left behind is given up first, once its lease has expired. `upto` says how far
        to read, `told` what else is to be known of the run.
        """
        self.own.recover_claims()
        for left in self.catalog.reclaim_expired_runs():
            if left.subject == binding.name:
                self._give_up(left.id)
        attempts = max((t.retry.attempts for t in binding.tasks), default=1)
        run = self.catalog.request_run(RunKind.FLOW, binding.name, attempts=attempts)

        def perform_flow(claim: RunClaim, log: RunLog, lease: Lease) -> RunOutcome:
            doors = (self.catalog, self.store, self.engine)
            return FlowAttempt(*doors, binding, updates, claim, log, lease, progress, told).run_tasks()

        retry = max((t.retry for t in binding.tasks), key=lambda r: r.attempts)
        return self.run_attempts(run, build_claim_request(binding, upto), perform_flow, retry_in=retry.compute_backoff)

    def attempt_run(
        self,
        run: Run,
        binding: BoundFlow,
        updates: Mapping[str, Updates],
        *,
        upto: Upto = ALL_THERE_IS,
        told: Told = NOTHING_TOLD,
        rest: float | None = None,
        fence: int | None = None,
    ) -> list[Block] | None:
        """One attempt at a run that somebody asked for; None if somebody else has it, or it has to wait.

        An attempt that fails leaves the run ready for another, if its tasks allow one, and raises. `rest`: more waits
        than it reads, and the oldest of that came then: its flow is due again once it is committed. `fence`: under
        which this process has taken the run before.
        """
        try:
            demand = build_claim_request(binding, upto)
            claim = self.claim_run(run.id, demand, fence=fence)
        except Conflict:
            return None
        retry = max((t.retry for t in binding.tasks), key=lambda r: r.attempts)
        wait = retry.compute_backoff(claim.run.attempt - claim.run.lost)

        def commit(claim: RunClaim, log: RunLog, lease: Lease) -> list[Block]:
            doors = (self.catalog, self.store, self.engine)
            performed = FlowAttempt(*doors, binding, updates, claim, log, lease, None, told).run_tasks()
            return self.catalog.commit_run(claim, replace(performed, rest=rest))

        return self.run_once(claim, commit, retry_in=wait)

    def run_attempts(
        self, run: Run, demand: ClaimRequest, perform: Perform, *, retry_in: Callable[[int], float]
    ) -> tuple[Run, list[Block]]:
        """Try a run until it finishes or its attempts are used up."""

        def commit(claim: RunClaim, log: RunLog, lease: Lease) -> list[Block]:
            return self.catalog.commit_run(claim, perform(claim, log, lease))

        while True:
            claim = self._claim_with_retry(run.id, demand)
            try:
                blocks = self.run_once(claim, commit, retry_in=retry_in(claim.run.attempt - claim.run.lost))
                return self.catalog.read_run(run.id), blocks
            except TidemillError:
                after = self.catalog.read_run(run.id)
                if after.state not in TO_COME:
                    raise
                self.sleep(max(0.0, (after.not_before or 0.0) - self.catalog.read_time()))

    def run_once(self, claim: RunClaim, commit: Commit[T], *, retry_in: float | None = None) -> T:
        """One attempt at a claimed run, up to and with its commit; what fails leaves nothing visible."""
        log = RunLog()
        with self.hold_lease(claim.run, log, retry_in) as lease, self.own.watch_failures():
            return commit(claim, log, lease)

    def begin_run(self, kind: RunKind, subject: str, demand: ClaimRequest) -> RunClaim:
        """A run that only this process can execute."""
        self.own.recover_claims()
        return self.own.claim_run(
            lambda: self.catalog.claim_new_run(kind, subject, demand, owner=self.owner, lease=self.lease)
        )

    def take_run(self, run: int) -> Run:
        return self.own.claim_run(lambda: self.catalog.acquire_run(run, owner=self.owner, lease=self.lease))

    def claim_run(self, run: int, demand: ClaimRequest, *, fence: int | None = None) -> RunClaim:
        return self.own.claim_run(
            lambda: self.catalog.claim_run(run, demand, owner=self.owner, lease=self.lease, fence=fence)
        )

    @contextmanager
    def hold_lease(self, run: Run, log: RunLog, retry_in: float | None = None) -> Iterator[Lease]:
        """Keep a run that is under way; what fails meanwhile ends the attempt."""
        try:
            with Lease(
                self.catalog, run, self.lease, on_loss=lambda: self.engine.cancel_jobs(format_tag(run))
            ) as lease:
                yield lease
        except BaseException as error:
            self._record_failure(run, error, log, retry_in)
            raise
        finally:
            self.own.end_run(run)

    def abandon_runs(self) -> None:
        """Give back what is under way, to be tried by somebody else at once."""
        for run in list(self.own.under_way.values()):
            with suppress(LeaseLost):
                self.catalog.fail_run(run.id, run.fence, error=f"{self.owner} was stopped", retry_in=0.0, lost=True)
            self.engine.cancel_jobs(format_tag(run))

    def _claim_with_retry(self, run: int, demand: ClaimRequest) -> RunClaim:
        deadline = time.monotonic() + self.busy
        while True:
            try:
                return self.claim_run(run, demand)
            except ChannelBusy:
                if time.monotonic() > deadline:
                    self._give_up(run)
                    raise
                self.sleep(0.2)
            except TidemillError:
                self._give_up(run)
                raise

    def _give_up(self, run: int) -> None:
        """Nobody will try this run again, unless somebody does already."""
        if self.catalog.read_run(run).state in TO_COME:
            self.catalog.kill_run(run)

    def _record_failure(self, run: Run, error: BaseException, log: RunLog, retry_in: float | None) -> None:
        """Cancel the slots, unless the run was taken away: then whoever took it has done so."""
        if isinstance(error, LeaseLost | RunKilled):
            return
        said = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__
        log.write_line(f"failed: {said}")
        again = retry_in if isinstance(error, Exception) else None
        later = error.retry_in if isinstance(error, TidemillError) else None
        if later is None and isinstance(error, Conflict) and run.kind is RunKind.FLOW:  # others overtook it
            later = 0.0
        lost = later is not None
        with suppress(LeaseLost, CatalogError), self.own.watch_failures():
            again = later if lost else again
            self.catalog.fail_run(run.id, run.fence, error=said, log=log.text, retry_in=again, lost=lost)
