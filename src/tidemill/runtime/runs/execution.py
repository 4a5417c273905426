"""Execution of runs: claim, perform, commit; a failure cancels the run and may schedule a retry.

A failure at any point between claim and commit leaves nothing visible: no result is visible before the commit, and all
results are visible after it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Generic, TypeVar

from tidemill.errors import CatalogError, ChannelBusy, Conflict, LeaseLost, RunKilled, TidemillError
from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.model.flow import BoundFlow
from tidemill.model.redaction import NO_SECRETS, Redactor, has_foreign_cause
from tidemill.model.run import PENDING_STATES, ClaimRequest, Run, RunClaim, RunKind, build_claim_request
from tidemill.model.task import RetryPolicy
from tidemill.ports.catalog import Catalog
from tidemill.ports.engine import Engine, Progress
from tidemill.ports.storage import BlockStore
from tidemill.runtime.runs.flow import FlowAttempt, RunDetails, format_tag
from tidemill.runtime.runs.leases import Lease, ProcessRuns
from tidemill.runtime.runs.log import RunLog

T = TypeVar("T")
ReadPositions = Mapping[tuple[str, str], int]
"""Sequence number up to which a task reads a channel, by task and channel."""

NO_READ_LIMIT: ReadPositions = MappingProxyType({})
NO_DETAILS: RunDetails = MappingProxyType({})

Commit = Callable[[RunClaim, RunLog, Lease], T]


@dataclass(frozen=True, slots=True)
class RunWork(Generic[T]):
    """The work of a run: what it claims, how an attempt executes and commits, and when a failed one is retried."""

    request: ClaimRequest
    commit: Commit[T]
    retry_in: Callable[[Run], float | None] = lambda _: None  # seconds after a failed attempt; None: no retry


@dataclass(frozen=True, slots=True)
class Executor:
    """Executes runs in this process under the name `owner`."""

    catalog: Catalog
    store: BlockStore
    engine: Engine
    owner: str
    lease: float = 30.0  # seconds
    busy_timeout: float = 60.0  # seconds to wait while another run has a reservation on a channel that a run must read
    sleep: Callable[[float], None] = time.sleep
    redactor: Redactor = NO_SECRETS  # applied to the errors and the logs of runs
    check_storage: Callable[[str], None] = lambda _: None  # raises if a workflow exceeds its storage quota
    process_runs: ProcessRuns = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "process_runs", ProcessRuns(self.catalog.runs, self.owner))

    def run_flow(
        self,
        binding: BoundFlow,
        updates: Mapping[str, Updates],
        progress: Progress | None = None,
        *,
        upto: ReadPositions = NO_READ_LIMIT,
        details: RunDetails = NO_DETAILS,
    ) -> tuple[Run, list[Block]]:
        """Run a bound flow to its end, with the retries that its tasks allow.

        A run of the flow that a dead process left is withdrawn first, once its lease has expired. The other arguments
        are those of `build_flow_work`.
        """
        self.process_runs.recover_claims()
        for expired in self.catalog.runs.reclaim_expired():
            if expired.subject == binding.name:
                self.catalog.runs.withdraw(expired.id)
        run = self.catalog.runs.request(RunKind.FLOW, binding.name, attempts=find_retry_policy(binding).attempts)
        work = self.build_flow_work(binding, updates, progress, upto=upto, details=details)
        while True:
            claim = self._claim_with_retry(run.id, work.request)
            try:
                blocks = self._attempt_claimed(claim, work)
                return self.catalog.runs.read(run.id), blocks
            except TidemillError:
                state = self.catalog.runs.read(run.id)
                if state.state not in PENDING_STATES:
                    raise
                self.sleep(max(0.0, (state.not_before or 0.0) - self.catalog.read_time()))

    def build_flow_work(
        self,
        binding: BoundFlow,
        updates: Mapping[str, Updates],
        progress: Progress | None = None,
        *,
        upto: ReadPositions = NO_READ_LIMIT,
        details: RunDetails = NO_DETAILS,
        oldest_unread: float | None = None,
    ) -> RunWork[list[Block]]:
        """Build the work of a bound flow with one variant for each task.

        `upto` limits the reads; `details` are recorded with the run. `oldest_unread` is the time of the oldest block
        that the run leaves unread: its flow is due again after the commit.
        """

        def commit(claim: RunClaim, log: RunLog, lease: Lease) -> list[Block]:
            services = (self.catalog, self.store, self.engine)
            outcome = FlowAttempt(*services, binding, updates, claim, log, lease, progress, details).run_tasks()
            return self.catalog.runs.commit(claim, replace(outcome, backlog_since=oldest_unread))

        retry = find_retry_policy(binding)
        return RunWork(build_claim_request(binding, upto), commit, lambda run: compute_backoff(retry, run))

    def attempt_run(self, run: int, work: RunWork[T], *, fencing_token: int | None = None) -> T | None:
        """Make one attempt at a requested run; None if another process has claimed it, or it has to wait.

        A failed attempt raises; the run stays ready for a retry if its work allows one. `fencing_token` is the token
        under which this process acquired the run before.
        """
        try:
            claim = self.claim_run(run, work.request, fencing_token=fencing_token)
        except Conflict:
            return None
        return self._attempt_claimed(claim, work)

    def _attempt_claimed(self, claim: RunClaim, work: RunWork[T]) -> T:
        return self.run_once(claim, work.commit, retry_in=work.retry_in(claim.run))

    def run_once(self, claim: RunClaim, commit: Commit[T], *, retry_in: float | None = None) -> T:
        """Make one attempt at a claimed run, including its commit; a failure leaves nothing visible."""
        log = RunLog(self.redactor)
        with self.hold_lease(claim.run, log, retry_in) as lease, self.process_runs.watch_failures():
            return commit(claim, log, lease)

    def begin_run(self, kind: RunKind, subject: str, request: ClaimRequest) -> RunClaim:
        """Create and claim a run that only this process can execute."""
        self.process_runs.recover_claims()
        return self.process_runs.claim_run(
            lambda: self.catalog.runs.claim_new(kind, subject, request, owner=self.owner, lease=self.lease)
        )

    def take_run(self, run: int) -> Run:
        return self.process_runs.claim_run(lambda: self.catalog.runs.acquire(run, owner=self.owner, lease=self.lease))

    def claim_run(self, run: int, request: ClaimRequest, *, fencing_token: int | None = None) -> RunClaim:
        claim = partial(self.catalog.runs.claim, run, request, fencing_token=fencing_token)
        return self.process_runs.claim_run(lambda: claim(owner=self.owner, lease=self.lease))

    @contextmanager
    def hold_lease(self, run: Run, log: RunLog, retry_in: float | None = None) -> Iterator[Lease]:
        """Renew the lease of a run inside the context; an exception ends the attempt."""
        try:
            cancel = partial(self.engine.cancel_jobs, format_tag(run))
            with Lease(self.catalog.runs, run, self.lease, on_loss=cancel) as lease:
                yield lease
        except BaseException as error:
            self._record_failure(run, error, log, retry_in)
            raise
        finally:
            self.process_runs.running.pop(run.id, None)

    def abandon_runs(self) -> None:
        """Return all running runs to the queue, so that another server can retry them at once."""
        for run in list(self.process_runs.running.values()):
            with suppress(LeaseLost):
                self.catalog.runs.fail(
                    run.id, run.fencing_token, error=f"{self.owner} was stopped", retry_in=0.0, is_lost=True
                )
            self.engine.cancel_jobs(format_tag(run))

    def _claim_with_retry(self, run: int, request: ClaimRequest) -> RunClaim:
        deadline = time.monotonic() + self.busy_timeout
        while True:
            try:
                return self.claim_run(run, request)
            except ChannelBusy:
                if time.monotonic() > deadline:
                    self.catalog.runs.withdraw(run)
                    raise
                self.sleep(0.2)
            except TidemillError:
                self.catalog.runs.withdraw(run)
                raise

    def _record_failure(self, run: Run, error: BaseException, log: RunLog, retry_in: float | None) -> None:
        """Record a failed attempt and cancel its reservations, unless another process took the run and has done so."""
        if isinstance(error, LeaseLost | RunKilled):
            return
        is_interrupted = isinstance(error, KeyboardInterrupt)
        message = "interrupted" if is_interrupted else self.redactor.summarize(error)
        log.write_line(f"failed: {message if is_interrupted else self.redactor.describe(error)}")
        retry_seconds = retry_in if isinstance(error, Exception) else None
        error_retry_seconds = error.retry_in if isinstance(error, TidemillError) else None
        if error_retry_seconds is None and isinstance(error, Conflict) and run.kind is RunKind.FLOW:  # overtaken
            error_retry_seconds = 0.0
        lost = error_retry_seconds is not None
        with suppress(LeaseLost, CatalogError), self.process_runs.watch_failures():
            retry_seconds = error_retry_seconds if lost else retry_seconds
            self.catalog.runs.fail(
                run.id, run.fencing_token, error=message, log=log.text, retry_in=retry_seconds, is_lost=lost
            )
            if has_foreign_cause(error):
                error.add_note(f"the run's log has the full text: tidemill runs {run.id} --log")


def find_retry_policy(binding: BoundFlow) -> RetryPolicy:
    """Return the policy of a flow's runs: that of the task with the most attempts."""
    return max((t.retry for t in binding.tasks), key=lambda r: r.attempts, default=RetryPolicy())


def compute_backoff(retry: RetryPolicy, run: Run) -> float:
    """Return the seconds until a run is retried after a failure; attempts that it lost do not count."""
    return retry.compute_backoff(run.attempt - run.lost_attempts)
