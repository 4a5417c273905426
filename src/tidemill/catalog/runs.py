"""Runs: from the request through claim, execution and commit to expiry."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from sqlalchemy import ColumnElement, Connection, ScalarSelect, Select, and_, exists, func, or_, select

from tidemill.catalog import commits, expiry
from tidemill.catalog.channel_heads import advance_heads, lock_named_channels, lock_reserved_channels
from tidemill.catalog.channels import advance_producers, record_merge_costs, record_rewrite_cost, reset_merge_costs
from tidemill.catalog.claims import claim_locked_run, lock_ready_run, start_attempt
from tidemill.catalog.database import CatalogPart, in_snapshot, in_transaction, repeat_batches
from tidemill.catalog.events import EventKind
from tidemill.catalog.queries import BLOCKS, read_block, read_blocks, read_channel, read_run
from tidemill.catalog.rows import AnyRow, to_channel_read, to_run
from tidemill.catalog.run_states import end_attempt, kill_run, lock_owned_run, request_run, update_run
from tidemill.catalog.tables import IS_RUNNABLE_FLOW, bindings, blocks, channels, logs, run_reads, runs, workflows
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.triggers import ensure_pending_run, replace_ended_run
from tidemill.model.block import Block, BlockKind, BlockState
from tidemill.model.codec import Json
from tidemill.model.run import (
    ACTIVE_STATES,
    OWNER_EXECUTED_KINDS,
    PENDING_STATES,
    ClaimRequest,
    Run,
    RunClaim,
    RunKind,
    RunOutcome,
    RunState,
)
from tidemill.ports.records import ChannelRead, Reader, RunExpiryCounts

ABANDON_SECONDS = 3600.0
"""Seconds after which a run that only its process can execute, and that was never started, is killed."""

_IS_FLOW = runs.c.kind == RunKind.FLOW
_READS = select(run_reads, channels.c.name.label("channel")).join_from(run_reads, channels).join(runs)
_READS = _READS.where(runs.c.state == RunState.FINISHED)  # active runs have recorded only where they will stop


class SqlRunCatalog(CatalogPart):
    """A `RunCatalog` over SQL."""

    @in_snapshot
    def read(self, connection: Connection, run: int) -> Run:
        return to_run(read_run(connection, run))

    @in_snapshot
    def read_log(self, connection: Connection, run: int) -> str:
        read_run(connection, run)
        texts = connection.execute(select(logs.c.text).where(logs.c.run_id == run).order_by(logs.c.attempt))
        return "\n".join(texts.scalars())

    @in_snapshot
    def list_reads(self, connection: Connection, run: int) -> list[ChannelRead]:
        read_run(connection, run)
        query = _READS.where(run_reads.c.run_id == run).order_by(run_reads.c.task, channels.c.name)
        return [to_channel_read(row) for row in connection.execute(query)]

    @in_snapshot
    def list_last_reads(self, connection: Connection) -> dict[Reader, int]:
        has_read = exists().where(run_reads.c.run_id == runs.c.id).correlate(runs)
        last = _select_newest_flow_runs(runs.c.state == RunState.FINISHED, has_read)
        query = select(runs.c.subject, run_reads.c.task, channels.c.name, run_reads.c.upto).join_from(run_reads, runs)
        rows = connection.execute(query.join(channels).where(runs.c.id.in_(last)))
        return {(row.subject, row.task, row.name): row.upto for row in rows}

    @in_snapshot
    def list_newest_flow_runs(self, connection: Connection) -> dict[str, Run]:
        rows = connection.execute(select(runs).where(runs.c.id.in_(_select_newest_flow_runs())))
        return {row.subject: to_run(row) for row in rows}

    @in_snapshot
    def list_newest_finished(self, connection: Connection, limit: int) -> dict[str, list[Run]]:
        is_finished = runs.c.state == RunState.FINISHED
        oldest = func.coalesce(_select_newest(limit - 1, is_finished), 0).label("oldest")
        spans = select(bindings.c.name, oldest).where(bindings.c.active).cte("spans")
        within = and_(runs.c.subject == spans.c.name, runs.c.id >= spans.c.oldest, _IS_FLOW, is_finished)
        found: dict[str, list[Run]] = defaultdict(list)
        for row in connection.execute(select(runs).join_from(spans, runs, within).order_by(runs.c.id.desc())):
            found[row.subject].append(to_run(row))
        return found

    @in_snapshot
    def list_block_reads(self, connection: Connection, channel: str, seq: int) -> list[ChannelRead]:
        on_channel = run_reads.c.channel_id == read_channel(connection, channel).id
        after_start = or_(run_reads.c.since.is_(None), run_reads.c.since < seq)
        covering = _READS.where(on_channel, run_reads.c.upto >= seq, after_start)
        ordered = covering.order_by(run_reads.c.run_id, run_reads.c.task)
        return [to_channel_read(row) for row in connection.execute(ordered)]

    @in_snapshot
    def list_runnable(self, connection: Connection, limit: int = 100) -> list[Run]:
        """Runnable runs in order: backfills last, then by the priority of the workflow; actions have priority 0."""
        now = self.database.read_time_with(connection)
        ranked_rows = [(-row.priority, row) for row in _list_runnable_flows(connection, now, limit)]
        ranked_rows += [(0, row) for row in _list_runnable_actions(connection, now, limit)]
        ordered = sorted(ranked_rows, key=lambda item: (item[1].backfill, item[0], item[1].id))
        return [to_run(row) for _, row in ordered[:limit]]

    @in_snapshot
    def list_overfull_subjects(self, connection: Connection, subjects: Collection[str], *, retain: int) -> list[str]:
        query = select(runs.c.subject).where(runs.c.subject.in_(subjects)).group_by(runs.c.subject)
        return list(connection.execute(query.having(func.count() > retain).order_by(runs.c.subject)).scalars())

    @in_transaction
    def request(
        self, tx: Transaction, kind: RunKind, subject: str, *, attempts: int = 1, backfill: bool = False
    ) -> Run:
        return to_run(request_run(tx, kind, subject, attempts=attempts, backfill=backfill))

    @in_transaction
    def acquire(self, tx: Transaction, run: int, *, owner: str, lease: float) -> Run:
        ready = lock_ready_run(tx, run)
        acquired = start_attempt(tx, ready, RunState.CLAIMED, owner, lease, attempt=ready.attempt + 1)
        tx.record_event(EventKind.RUN_ACQUIRED, ready.subject, run, owner=owner, attempt=acquired.attempt)
        return to_run(acquired)

    @in_transaction
    def claim(
        self,
        tx: Transaction,
        run: int,
        request: ClaimRequest,
        *,
        owner: str,
        lease: float,
        fencing_token: int | None = None,
    ) -> RunClaim:
        if fencing_token is None:
            return _claim_ready_run(tx, run, request, owner, lease)
        acquired = lock_owned_run(tx, run, fencing_token)
        return claim_locked_run(tx, acquired, request, owner=owner, lease=lease, attempt=acquired.attempt)

    @in_transaction
    def claim_new(
        self, tx: Transaction, kind: RunKind, subject: str, request: ClaimRequest, *, owner: str, lease: float
    ) -> RunClaim:
        run = request_run(tx, kind, subject, attempts=1, backfill=False)
        return _claim_ready_run(tx, run.id, request, owner, lease)

    @in_transaction
    def mark_running(self, tx: Transaction, run: int, fencing_token: int) -> None:
        row = lock_owned_run(tx, run, fencing_token)
        if row.state == RunState.SUBMITTED:
            update_run(tx, row, state=RunState.RUNNING)
            tx.record_event(EventKind.RUN_STARTED, row.subject, run, attempt=row.attempt)

    @in_transaction
    def renew_lease(self, tx: Transaction, run: int, fencing_token: int, *, lease: float) -> None:
        update_run(tx, lock_owned_run(tx, run, fencing_token), lease_until=tx.now + lease)

    @in_transaction
    def release(self, tx: Transaction, run: int, fencing_token: int, *, seconds: float) -> None:
        row = lock_owned_run(tx, run, fencing_token)
        values = {"state": RunState.WAITING, "not_before": tx.now + seconds, "attempt": row.attempt - 1}
        update_run(tx, row, **values, owner=None, lease_until=None)
        tx.record_event(EventKind.RUN_RELEASED, row.subject, run, seconds=seconds)

    @in_transaction
    def commit(self, tx: Transaction, claim: RunClaim, outcome: RunOutcome) -> list[Block]:
        run = commits.finish_run(tx, claim, outcome.stats, outcome.log)
        locked = lock_reserved_channels(tx, run.id)
        commits.fill_slots(tx, run, outcome.blocks)
        commits.record_consumption(tx, run, outcome.consumptions, claim.task_identities)
        commits.record_costs(tx, run, outcome.costs)
        record_merge_costs(tx, outcome.merge_seconds, is_interactive=False)
        reset_merge_costs(tx, commits.list_rebased_channels(locked, outcome.blocks))
        advance_producers(tx, outcome.producer_advances)
        advance_heads(tx, locked, run.id)
        if outcome.backlog_since is not None:
            ensure_pending_run(tx, run.subject, due=outcome.backlog_since)
        is_written = (blocks.c.run_id == run.id, blocks.c.state == BlockState.FILLED)
        return read_blocks(tx.connection, BLOCKS.where(*is_written).order_by(blocks.c.id))

    @in_transaction
    def commit_compaction(
        self, tx: Transaction, claim: RunClaim, compacted: Block, *, log: str = "", rewrite_cost: Json | None = None
    ) -> Block:
        run = commits.finish_run(tx, claim, {}, log)
        channel = lock_named_channels(tx, [compacted.channel])[compacted.channel]
        commits.fill_slots(tx, run, ())
        commits.check_files_referenced(tx, claim.directory, compacted.files)
        block = commits.insert_compacted_block(tx, run, channel, compacted)
        if compacted.kind is BlockKind.BASE:
            reset_merge_costs(tx, [channel.id])
        if rewrite_cost is not None:
            record_rewrite_cost(tx, channel.id, rewrite_cost)
        return read_block(tx.connection, block)

    @in_transaction
    def fail(
        self,
        tx: Transaction,
        run: int,
        fencing_token: int,
        *,
        error: str,
        log: str = "",
        retry_in: float | None = None,
        is_lost: bool = False,
    ) -> Run:
        row = lock_owned_run(tx, run, fencing_token)
        return end_attempt(tx, row, error=error, log=log, retry_in=retry_in, lost=is_lost)

    @in_transaction
    def kill(self, tx: Transaction, run: int) -> Run:
        return kill_run(tx, read_run(tx.connection, run, lock=True))

    @in_transaction
    def withdraw(self, tx: Transaction, run: int) -> None:
        row = read_run(tx.connection, run, lock=True)
        if row.state in PENDING_STATES:
            kill_run(tx, row)
            replace_ended_run(tx, row)

    def reclaim_expired(self) -> list[Run]:
        return [run for expired in self._list_expired() if (run := self._reclaim_expired_run(expired)) is not None]

    def reclaim_owned(self, owner: str, *, error: str, keep: Collection[int] = (), is_lost: bool = True) -> list[Run]:
        unknown = [run for run in self._list_owned(owner) if run not in keep]
        reclaimed = (self._reclaim_owned_run(run, owner, error, is_lost) for run in unknown)
        return [run for run in reclaimed if run is not None]

    @in_snapshot
    def _list_expired(self, connection: Connection) -> list[int]:
        now = self.database.read_time_with(connection)
        is_expired = and_(runs.c.state.in_(ACTIVE_STATES), runs.c.lease_until <= now)
        is_owner_executed = runs.c.kind.in_(OWNER_EXECUTED_KINDS)
        is_abandoned = and_(
            runs.c.state.in_(PENDING_STATES), is_owner_executed, runs.c.created <= now - ABANDON_SECONDS
        )
        query = select(runs.c.id).where(or_(is_expired, is_abandoned)).order_by(runs.c.id)
        return list(connection.execute(query).scalars())

    @in_transaction
    def _reclaim_expired_run(self, tx: Transaction, run: int) -> Run | None:
        """Reclaim a run whose lease has expired, or that was never started; None if it was renewed or ended."""
        row = read_run(tx.connection, run, lock=True)
        if row.state in PENDING_STATES and row.kind in OWNER_EXECUTED_KINDS and row.created <= tx.now - ABANDON_SECONDS:
            return kill_run(tx, row)
        if row.state not in ACTIVE_STATES or row.lease_until > tx.now:
            return None
        seconds_late = tx.now - row.lease_until
        error = f"lease expired: {row.owner} did not renew it and is {seconds_late:.1f} s late"
        return end_attempt(tx, row, error=error, log="", retry_in=0, lost=True)

    @in_snapshot
    def _list_owned(self, connection: Connection, owner: str) -> list[int]:
        query = select(runs.c.id).where(runs.c.state.in_(ACTIVE_STATES), runs.c.owner == owner)
        return list(connection.execute(query.order_by(runs.c.id)).scalars())

    @in_transaction
    def _reclaim_owned_run(self, tx: Transaction, run: int, owner: str, error: str, is_lost: bool) -> Run | None:
        """Reclaim a run that its owner does not execute; None if it ended, or has another owner, meanwhile."""
        row = read_run(tx.connection, run, lock=True)
        if row.state not in ACTIVE_STATES or row.owner != owner:
            return None
        return end_attempt(tx, row, error=error, log="", retry_in=0, lost=is_lost)

    def expire(self, subject: str, *, retain: int) -> RunExpiryCounts:
        return repeat_batches(lambda: self._expire_batch(subject, retain), lambda batch: batch.runs == expiry.RUN_BATCH)

    @in_transaction
    def _expire_batch(self, tx: Transaction, subject: str, retain: int) -> RunExpiryCounts:
        return expiry.expire_batch(tx, subject, retain)

    @in_snapshot
    def list(
        self,
        connection: Connection,
        *,
        state: RunState | None = None,
        kind: RunKind | None = None,
        subject: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Run]:
        wanted = {"state": state, "kind": kind, "subject": subject}
        conditions = [runs.c[name] == value for name, value in wanted.items() if value is not None]
        if before is not None:
            conditions.append(runs.c.id < before)
        query = select(runs).where(*conditions).order_by(runs.c.id.desc()).limit(limit)
        return [to_run(row) for row in connection.execute(query)]


def _select_newest_flow_runs(*conditions: ColumnElement[bool]) -> Select[int]:
    """The newest run of each bound flow that meets the conditions."""
    return select(_select_newest(0, *conditions)).select_from(bindings).where(bindings.c.active)


def _select_newest(offset: int, *conditions: ColumnElement[bool]) -> ScalarSelect[int]:
    """The id of a bound flow's newest run, after `offset` newer ones, that meets the conditions; found by an index."""
    query = select(runs.c.id).where(runs.c.subject == bindings.c.name, _IS_FLOW, *conditions)
    return query.order_by(runs.c.id.desc()).limit(1).offset(offset).correlate(bindings).scalar_subquery()


def _claim_ready_run(tx: Transaction, run: int, request: ClaimRequest, owner: str, lease: float) -> RunClaim:
    ready = lock_ready_run(tx, run)
    return claim_locked_run(tx, ready, request, owner=owner, lease=lease, attempt=ready.attempt + 1)


def _list_runnable_actions(connection: Connection, now: float, limit: int) -> Iterable[AnyRow]:
    """Runs of actions that a server may claim: their inputs are available, and their waiting time has passed."""
    due = or_(runs.c.state == RunState.READY, runs.c.not_before <= now)
    query = select(runs).where(runs.c.state.in_(PENDING_STATES), runs.c.kind == RunKind.ACTION, due)
    return connection.execute(query.order_by(runs.c.id).limit(limit))


def _list_runnable_flows(connection: Connection, now: float, limit: int) -> Iterable[AnyRow]:
    """Runs of flows that a server may claim: the workflow is not paused, and no run of the same flow is active."""
    other = runs.alias()
    has_active_run = exists().where(
        other.c.subject == runs.c.subject, other.c.kind == RunKind.FLOW, other.c.state.in_(ACTIVE_STATES)
    )
    query = (
        select(runs, workflows.c.priority)
        .join(bindings, bindings.c.name == runs.c.subject)
        .join(workflows, workflows.c.name == bindings.c.workflow)
        .where(
            IS_RUNNABLE_FLOW,
            or_(runs.c.not_before.is_(None), runs.c.not_before <= now),
            workflows.c.paused.is_(False),
            bindings.c.active,
            ~has_active_run,
        )
        .order_by(runs.c.backfill, workflows.c.priority.desc(), runs.c.id)
        .limit(limit)
    )
    return connection.execute(query)
