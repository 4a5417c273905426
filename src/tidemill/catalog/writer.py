"""The SQL catalog: every transition, each in one transaction."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from tidemill.catalog import (
    claims,
    commits,
    flow_facts,
    garbage_collection,
    merge_costs,
    notices,
    pins,
    producers,
    registration,
    removals,
    run_expiry,
    runs,
    servers,
    triggers,
)
from tidemill.catalog.engine import build_engine, derive_write_engine, is_collision, is_single_writer, translate_errors
from tidemill.catalog.group_commit import GroupCommit
from tidemill.catalog.migrate import ensure_current
from tidemill.catalog.reader import SqlCatalogReader
from tidemill.catalog.rows import to_run
from tidemill.catalog.transaction import Transaction
from tidemill.model.block import Block
from tidemill.model.codec import Json
from tidemill.model.notice import Notice
from tidemill.model.run import ClaimRequest, Run, RunClaim, RunKind, RunOutcome
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.catalog import Clock
from tidemill.ports.records import RunExpiryCounts, Server

_MAX_ATTEMPTS = 10
_MAX_PAUSE = 0.05  # seconds before the retry of a transaction that collided

T = TypeVar("T")


class SqlCatalog(SqlCatalogReader):
    """A `CatalogWriter` over SQL. It may be used from several threads."""

    def __init__(self, engine: Engine, clock: Clock | None = None) -> None:
        """`clock` replaces the database's clock."""
        super().__init__(engine, clock)
        self._write = _build_writer(derive_write_engine(engine))

    def apply_workflow(self, workflow: WorkflowSpec, document: Json | None = None) -> None:
        self.run_transaction(lambda tx: registration.apply_workflow(tx, workflow, document))

    def remove_workflow(self, workflow: str) -> None:
        self.run_transaction(lambda tx: registration.remove_workflow(tx, workflow))

    def record_analyses(self, answers: Mapping[str, Json]) -> None:
        self.run_transaction(lambda tx: registration.record_analyses(tx, answers))

    def request_run(self, kind: RunKind, subject: str, *, attempts: int = 1, backfill: bool = False) -> Run:
        return self.run_transaction(
            lambda tx: runs.request_run(tx, kind, subject, attempts=attempts, backfill=backfill)
        )

    def claim_run(
        self, run: int, request: ClaimRequest, *, owner: str, lease: float, fencing_token: int | None = None
    ) -> RunClaim:
        return self.run_transaction(
            lambda tx: claims.claim_run(tx, run, request, owner=owner, lease=lease, fencing_token=fencing_token)
        )

    def claim_new_run(
        self, kind: RunKind, subject: str, request: ClaimRequest, *, owner: str, lease: float
    ) -> RunClaim:
        return self.run_transaction(
            lambda tx: claims.claim_new_run(tx, kind, subject, request, owner=owner, lease=lease)
        )

    def renew_lease(self, run: int, fencing_token: int, *, lease: float) -> None:
        self.run_transaction(lambda tx: runs.renew_lease(tx, run, fencing_token, lease=lease))

    def commit_run(self, claim: RunClaim, outcome: RunOutcome) -> list[Block]:
        return self.run_transaction(lambda tx: commits.commit_run(tx, claim, outcome))

    def commit_compaction(
        self, claim: RunClaim, compacted: Block, *, log: str = "", rewrite_cost: Json | None = None
    ) -> Block:
        return self.run_transaction(lambda tx: commits.commit_compaction(tx, claim, compacted, log, rewrite_cost))

    def record_merge_costs(self, seconds_by_channel: Mapping[str, float]) -> None:
        self.run_transaction(lambda tx: merge_costs.record_merge_costs(tx, seconds_by_channel, is_interactive=True))

    def fail_run(
        self,
        run: int,
        fencing_token: int,
        *,
        error: str,
        log: str = "",
        retry_in: float | None = None,
        is_lost: bool = False,
    ) -> Run:
        return self.run_transaction(
            lambda tx: runs.fail_run(tx, run, fencing_token, error=error, log=log, retry_in=retry_in, is_lost=is_lost)
        )

    def kill_run(self, run: int) -> Run:
        return self.run_transaction(lambda tx: runs.kill_run(tx, run))

    def reclaim_expired_runs(self) -> list[Run]:
        """Cancel the reservations of runs whose lease has expired, each run in a separate transaction."""
        with self._open_connection() as connection:
            expired = runs.list_expired_runs(connection, self._read_time(connection))
        reclaimed = [self.run_transaction(partial(runs.reclaim_run, run=run)) for run in expired]
        return [run for run in reclaimed if run is not None]

    def reclaim_unknown_runs(self, owner: str, keep: Collection[int]) -> list[Run]:
        with self._open_connection() as connection:
            unknown = [run for run in runs.list_owned_runs(connection, owner) if run not in keep]
        reclaimed = [self.run_transaction(partial(runs.reclaim_unknown_run, run=run, owner=owner)) for run in unknown]
        return [run for run in reclaimed if run is not None]

    def fire_trigger(self, leaf: int) -> int | None:
        return self.run_transaction(lambda tx: triggers.fire_trigger(tx, leaf))

    def acquire_run(self, run: int, *, owner: str, lease: float) -> Run:
        return self.run_transaction(lambda tx: claims.acquire_run(tx, run, owner=owner, lease=lease))

    def mark_running(self, run: int, fencing_token: int) -> None:
        self.run_transaction(lambda tx: runs.mark_running(tx, run, fencing_token))

    def release_run(self, run: int, fencing_token: int, *, seconds: float) -> None:
        self.run_transaction(lambda tx: runs.release_run(tx, run, fencing_token, seconds=seconds))

    def override_settings(self, overrides: Mapping[str, Any]) -> None:
        self.run_transaction(lambda tx: flow_facts.override_settings(tx, overrides))

    def set_freshness_deadline(self, flow: str, at: float) -> None:
        self.run_transaction(lambda tx: triggers.set_freshness_deadline(tx, flow, at))

    def set_freshness_lead(self, flow: str, seconds: float) -> None:
        self.run_transaction(lambda tx: triggers.set_freshness_lead(tx, flow, seconds))

    def set_workflow_paused(self, workflow: str, *, paused: bool) -> None:
        self.run_transaction(lambda tx: triggers.set_workflow_paused(tx, workflow, paused))

    def set_workflow_priority(self, workflow: str, priority: int) -> None:
        self.run_transaction(lambda tx: triggers.set_workflow_priority(tx, workflow, priority))

    def record_heartbeat(self, server: Server, *, lease: float) -> bool:
        return self.run_transaction(lambda tx: servers.record_heartbeat(tx, server, lease))

    def deregister_server(self, server: Server) -> None:
        self.run_transaction(lambda tx: servers.deregister_server(tx, server))

    def acquire_lease(self, name: str, owner: str, *, lease: float) -> bool:
        return self.run_transaction(lambda tx: servers.acquire_lease(tx, name, owner, lease))

    def release_lease(self, name: str, owner: str) -> None:
        self.run_transaction(lambda tx: servers.release_lease(tx, name, owner))

    def move_consumer_offset(self, name: str, since: int | None, upto: int) -> None:
        self.run_transaction(lambda tx: producers.move_consumer_offset(tx, name, since, upto))

    def expire_producers(self, age: float) -> int:
        return self.run_transaction(lambda tx: producers.expire_producers(tx, age))

    def list_due_triggers(self, limit: int = 100) -> list[int]:
        with self._open_connection() as connection:
            return triggers.list_due_triggers(connection, self._read_time(connection), limit)

    def list_runnable_runs(self, limit: int = 100) -> list[Run]:
        """Runnable runs in order: backfills last, then by the priority of the workflow; actions have priority 0."""
        with self._open_connection() as connection:
            now = self._read_time(connection)
            ranked_rows = [(-row.priority, row) for row in triggers.list_runnable_flows(connection, now, limit)]
            ranked_rows += [(0, row) for row in runs.list_runnable_actions(connection, now, limit)]
        ordered = sorted(ranked_rows, key=lambda item: (item[1].backfill, item[0], item[1].id))
        return [to_run(row) for _, row in ordered[:limit]]

    def create_notices(self, receivers: list[str]) -> int:
        with self._open_connection() as connection:
            if not notices.has_new_events(connection):
                return 0
        return self.run_transaction(lambda tx: notices.create_notices(tx, receivers))

    def list_due_notices(self, limit: int = 100) -> list[tuple[str, Notice]]:
        with self._open_connection() as connection:
            return notices.list_due_notices(connection, self._read_time(connection), limit)

    def record_delivery(self, notice: int) -> None:
        self.run_transaction(lambda tx: notices.record_delivery(tx, notice))

    def record_delivery_failure(self, notice: int, error: str) -> None:
        self.run_transaction(lambda tx: notices.record_delivery_failure(tx, notice, error))

    def collect_blocks(self, blocks: Iterable[int]) -> int:
        block_ids = set(blocks)
        return self.run_transaction(lambda tx: garbage_collection.collect_blocks(tx, block_ids))

    def pin_block(self, block: int, block_ids: Collection[int]) -> None:
        self.run_transaction(lambda tx: pins.pin_block(tx, block, block_ids))

    def unpin_block(self, block: int) -> None:
        self.run_transaction(lambda tx: pins.unpin_block(tx, block))

    def purge_blocks(self) -> list[str]:
        return self.run_transaction(garbage_collection.purge_blocks)

    def mark_orphans(self, run: int, paths: Collection[str]) -> int:
        return self.run_transaction(lambda tx: removals.mark_orphans(tx, run, paths))

    def finish_removals(self, paths: Collection[str]) -> None:
        self.run_transaction(lambda tx: removals.finish_removals(tx, paths))

    def record_adoption(self, store: str, before: str | None) -> None:
        self.run_transaction(lambda tx: removals.record_adoption(tx, store, before))

    def expire_runs(self, subject: str, *, keep: int) -> RunExpiryCounts:
        """Expire runs in batches, each in a separate transaction."""
        expired = batch = self.run_transaction(lambda tx: run_expiry.expire_runs(tx, subject, keep))
        while batch.runs == run_expiry.BATCH_SIZE:
            batch = self.run_transaction(lambda tx: run_expiry.expire_runs(tx, subject, keep))
            expired += batch
        return expired

    def run_transaction(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` in one atomic transaction; retry it if it collided with another one."""
        with translate_errors(self._engine):
            for _ in range(_MAX_ATTEMPTS - 1):
                try:
                    return self._attempt_transaction(work)
                except DBAPIError as error:
                    if not is_collision(error):
                        raise
                    time.sleep(random.uniform(0, _MAX_PAUSE))
            return self._attempt_transaction(work)

    def _attempt_transaction(self, work: Callable[[Transaction], T]) -> T:
        def run_work(connection: Connection) -> T:
            # The time is read after the write lock is acquired: waiting for it may outlast a lease.
            tx = Transaction(connection, self._read_time(connection))
            result = work(tx)
            tx.write_events()
            return result

        return self._write(run_work)


class _TransactionRunner(Protocol):
    """Runs work in a transaction."""

    def __call__(self, work: Callable[[Connection], T]) -> T: ...


def _build_writer(engine: Engine) -> _TransactionRunner:
    if is_single_writer(engine):
        return GroupCommit(engine)

    def run_in_transaction(work: Callable[[Connection], T]) -> T:
        with engine.begin() as connection:
            return work(connection)

    return run_in_transaction


def open_catalog(url: str, clock: Clock | None = None) -> SqlCatalog:
    """Open a catalog by its URL; create or upgrade it if necessary. The default clock is the database's."""
    engine = build_engine(url)
    try:
        ensure_current(engine)
    except BaseException:
        engine.dispose()
        raise
    return SqlCatalog(engine, clock)
