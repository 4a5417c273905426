"""Datasets: submitted one-shot workflows, and the datasets that they write and read."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from sqlalchemy import Connection, Select, delete, exists, func, select, update

from tidemill.catalog import dataset_states as store
from tidemill.catalog.commits import finish_run
from tidemill.catalog.database import CatalogPart, in_snapshot, in_transaction, repeat_batches
from tidemill.catalog.events import EventKind
from tidemill.catalog.expiry import expire_submissions
from tidemill.catalog.files import mark_files
from tidemill.catalog.queries import read_run, split_batches
from tidemill.catalog.rows import AnyRow, build_reader, to_run
from tidemill.catalog.run_states import update_run
from tidemill.catalog.submission import submit_workflow
from tidemill.catalog.tables import actions, datasets, run_inputs, runs, submissions
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.usage import read_tallies, read_usage
from tidemill.errors import Conflict, NotFound
from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.run import RunClaim, RunState
from tidemill.model.states import PRODUCING_STATES, READABLE_STATES, STATES_WITH_FILES, DatasetState
from tidemill.model.submission import (
    ActionResult,
    ActionSpec,
    DatasetPlacement,
    ExpiredHistory,
    StoredDataset,
    Submission,
    SubmissionRequest,
    SubmittedAction,
)
from tidemill.model.usage import UsagePeriod, UsageRecord, UsageTally

_ACTIONS = (
    select(actions, datasets.c.bytes)
    .join_from(actions, datasets)
    .order_by(actions.c.submission_id.desc(), actions.c.ordinal)
)
_COMMITTED_STATE = {
    DatasetState.TO_STORE: DatasetState.STORED,
    DatasetState.TO_LEAF: DatasetState.LEAF,
    DatasetState.TO_DELETE: DatasetState.STORED_TO_DELETE,
}
_EVICTION_STATES = (DatasetState.PROCESSING, DatasetState.DELETING)
_STATES_WITH_ALL_FILES = READABLE_STATES | {DatasetState.PROCESSING}


class SqlDatasetCatalog(CatalogPart):
    """A `DatasetCatalog` over SQL.

    Datasets are evicted in three steps: they are chosen, their files are deleted, and the deletion is recorded. Between
    the first two steps a request for the dataset rescues it. From the second step on it cannot be read, so that no
    reader finds only a part of its files; after a crash, any server that finds it in that state deletes the others.
    """

    # Submissions.

    @in_snapshot
    def read_descriptions(self, connection: Connection, identities: Iterable[Identity]) -> dict[Identity, Json]:
        columns = (datasets.c.identity, datasets.c.description)
        queries = (select(*columns).where(datasets.c.identity.in_(part)) for part in split_batches(identities))
        return {row.identity: row.description for query in queries for row in connection.execute(query)}

    @in_snapshot
    def read_generations(self, connection: Connection) -> dict[Identity, int]:
        newest = select(datasets.c.unforced_identity, func.max(datasets.c.generation).label("newest"))
        rows = connection.execute(newest.where(datasets.c.generation > 0).group_by(datasets.c.unforced_identity))
        return {row.unforced_identity: row.newest for row in rows}

    @in_transaction
    def submit_workflow(self, tx: Transaction, request: SubmissionRequest) -> int:
        return submit_workflow(tx, request)

    @in_snapshot
    def read_submission(self, connection: Connection, number: int) -> Submission:
        row = connection.execute(select(submissions).where(submissions.c.id == number)).one_or_none()
        if row is None:
            newest = connection.execute(select(func.max(submissions.c.id))).scalar()
            hint = "there are none yet" if newest is None else f"the newest is {newest}"
            raise NotFound(f"there is no submission {number}; {hint}")
        return _read_submissions(connection, [row])[0]

    @in_snapshot
    def list_submissions(
        self, connection: Connection, *, before: int | None = None, limit: int = 20
    ) -> list[Submission]:
        columns = [c for c in submissions.c if c.name != "document"]
        query = select(*columns).order_by(submissions.c.id.desc()).limit(limit)
        rows = connection.execute(query if before is None else query.where(submissions.c.id < before)).all()
        return _read_submissions(connection, rows)

    @in_snapshot
    def read_usage(self, connection: Connection, period: UsagePeriod) -> list[UsageRecord]:
        return read_usage(connection, period)

    @in_snapshot
    def read_tallies(self, connection: Connection, period: UsagePeriod) -> list[UsageTally]:
        return read_tallies(connection, period)

    @in_snapshot
    def list_submitted_actions(self, connection: Connection, after: int) -> list[tuple[int, str, Identity]]:
        query = select(submissions.c.id, submissions.c.workflow, actions.c.identity).join_from(actions, submissions)
        ordered = query.where(submissions.c.id > after).order_by(submissions.c.id, actions.c.ordinal)
        return [(row.id, row.workflow, row.identity) for row in connection.execute(ordered)]

    def expire_submissions(self, age: float) -> ExpiredHistory:
        return repeat_batches(lambda: self._expire_batch(age), lambda batch: bool(batch.submissions or batch.events))

    @in_transaction
    def _expire_batch(self, tx: Transaction, age: float) -> ExpiredHistory:
        return expire_submissions(tx, age)

    # Runs of actions.

    @in_snapshot
    def read_action_spec(self, connection: Connection, run: int) -> ActionSpec:
        query = select(actions, submissions.c.document).join_from(actions, submissions).where(actions.c.run_id == run)
        action = connection.execute(query.order_by(actions.c.submission_id).limit(1)).one_or_none()
        if action is None:
            raise NotFound(f"run {run} belongs to no action of a one-shot workflow")
        row = connection.execute(_select_dataset(action.identity)).one()
        inputs = tuple(store.to_stored_dataset(connection.execute(_select_dataset(i)).one()) for i in row.parents)
        submitted = (action.submission_id, action.document, action.key)
        return ActionSpec(*submitted, row.description, store.to_stored_dataset(row), inputs)

    @in_transaction
    def commit(self, tx: Transaction, claim: RunClaim, result: ActionResult) -> None:
        store.lock_datasets(tx)
        size = {"rows": sum(file.rows for file in result.files), "bytes": sum(file.bytes for file in result.files)}
        run = finish_run(tx, claim, {"seconds": result.seconds, **size}, result.log)
        row = tx.execute(select(datasets).where(datasets.c.run_id == run.id)).one()
        waiting_runs = _claim_for_waiters(tx, row.identity)
        dataset = store.to_dataset(row)
        dataset = dataset.transition_to(_COMMITTED_STATE[dataset.state])
        for _ in waiting_runs:
            dataset = dataset.add_claim()
        files = [[file.path, file.rows, file.bytes] for file in result.files]
        values = {"schema": result.schema, "files": files, "seconds": result.seconds, **size}
        store.save_dataset(tx, row, dataset, **values, computed_at=tx.now, used_at=tx.now)
        store.release_claims(tx, run.id)
        for run_id in waiting_runs:
            _wake_run(tx, run_id)

    @in_transaction
    def mark_lost(self, tx: Transaction, identity: Identity) -> None:
        row = _lock_dataset(tx, identity)
        if row.state in _STATES_WITH_ALL_FILES:
            tx.execute(delete(run_inputs).where(run_inputs.c.identity == identity, run_inputs.c.claimed))
            mark_files(tx, {path: row.run_id for path, _, _ in row.files})
            store.save_dataset(tx, row, store.to_dataset(row).transition_to(DatasetState.DELETED), files=[])

    # Copies at users' paths.

    @in_snapshot
    def list_pending_copies(self, connection: Connection, submission: int | None = None) -> list[DatasetPlacement]:
        pending = (actions.c.path.is_not(None), actions.c.copied_at.is_(None), datasets.c.state.in_(READABLE_STATES))
        query = select(actions.c.submission_id, actions.c.key, actions.c.path, datasets).join_from(actions, datasets)
        query = query.where(*pending).order_by(actions.c.submission_id, actions.c.ordinal)
        if submission is not None:
            query = query.where(actions.c.submission_id == submission)
        rows = connection.execute(query)
        return [DatasetPlacement(row.submission_id, row.key, row.path, store.to_stored_dataset(row)) for row in rows]

    @in_snapshot
    def list_output_paths(self, connection: Connection) -> list[tuple[str, str]]:
        newest = select(func.max(submissions.c.id)).group_by(submissions.c.workflow)
        query = select(submissions.c.workflow, actions.c.path).join_from(actions, submissions)
        rows = connection.execute(query.where(submissions.c.id.in_(newest), actions.c.path.is_not(None)))
        return [(row.workflow, row.path) for row in rows]

    @in_snapshot
    def list_copies(self, connection: Connection) -> list[tuple[str, Identity]]:
        query = select(actions.c.path, actions.c.identity).where(actions.c.path.is_not(None)).distinct()
        return [(row.path, row.identity) for row in connection.execute(query)]

    @in_transaction
    def record_copy(self, tx: Transaction, placement: DatasetPlacement) -> None:
        is_action = (actions.c.submission_id == placement.submission, actions.c.key == placement.key)
        statement = update(actions).where(*is_action, actions.c.copied_at.is_(None)).values(copied_at=tx.now)
        if tx.execute(statement).rowcount:
            dataset = placement.dataset
            details = {"identity": dataset.identity, "path": placement.path, "submission": placement.submission}
            tx.record_event(EventKind.DATASET_EXPORTED, f"{dataset.workflow}/{dataset.name}", dataset.run, **details)

    # Storage.

    @in_snapshot
    def read_held_bytes(self, connection: Connection) -> dict[str, int]:
        size = func.sum(datasets.c.bytes).label("size")
        query = select(datasets.c.workflow, size).where(datasets.c.state.in_(STATES_WITH_FILES))
        return {row.workflow: int(row.size) for row in connection.execute(query.group_by(datasets.c.workflow))}

    @in_transaction
    def evict(self, tx: Transaction, dataset_ids: Collection[Identity]) -> list[Identity]:
        store.lock_datasets(tx)
        stored = (r for r in store.find_datasets(tx, dataset_ids).values() if r.state == DatasetState.STORED)
        rows = [row for row in stored if not row.claims and not row.pinned]
        for row in rows:
            store.save_dataset(tx, row, store.to_dataset(row).mark_for_eviction())
        return [row.identity for row in rows]

    @in_transaction
    def drop(self, tx: Transaction, identity: Identity) -> None:
        row = _lock_dataset(tx, identity)
        if row.state != DatasetState.LEAF:
            raise Conflict(f"dataset {row.name} is {row.state}, not a leaf; only leaves can be deleted by users")
        if row.pinned:
            raise Conflict(f"dataset {row.name} is pinned; unpin it first")
        target = DatasetState.STORED_TO_DELETE if row.claims else DatasetState.PROCESSING
        store.save_dataset(tx, row, store.to_dataset(row).transition_to(target))

    @in_transaction
    def pin(self, tx: Transaction, identity: Identity, *, pinned: bool) -> None:
        row = _lock_dataset(tx, identity)
        if row.pinned == pinned:
            return
        before = store.to_dataset(row)
        store.save_dataset(tx, row, before.pin() if pinned else before.unpin())
        kind = EventKind.DATASET_PINNED if pinned else EventKind.DATASET_UNPINNED
        tx.record_event(kind, f"{row.workflow}/{row.name}", row.run_id, identity=identity)

    @in_snapshot
    def list_pending_evictions(self, connection: Connection) -> list[Identity]:
        query = select(datasets.c.identity).where(datasets.c.state.in_(_EVICTION_STATES)).order_by(datasets.c.identity)
        return list(connection.execute(query).scalars())

    @in_transaction
    def begin_deletion(self, tx: Transaction, identity: Identity) -> list[str] | None:
        row = _lock_dataset(tx, identity)
        if row.state not in _EVICTION_STATES:
            return None
        # From now on run_id names a run that waits to recompute it.
        run = row.run_id if row.state == DatasetState.DELETING else None
        store.save_dataset(tx, row, store.to_dataset(row).transition_to(DatasetState.DELETING), run_id=run)
        return [path for path, _, _ in row.files]

    @in_transaction
    def finish_deletion(self, tx: Transaction, identity: Identity) -> None:
        """Record that a dataset's files are deleted, and wake the run that waits to recompute it."""
        row = _lock_dataset(tx, identity)
        if row.state != DatasetState.DELETING:
            return
        store.save_dataset(tx, row, store.to_dataset(row).transition_to(DatasetState.DELETED), files=[])
        if row.run_id is not None:
            deleted = store.read_dataset(tx, identity)
            next_state = DatasetState.TO_LEAF if row.is_leaf else DatasetState.TO_STORE
            store.save_dataset(tx, deleted, store.to_dataset(deleted).transition_to(next_state))
            _wake_run(tx, row.run_id)

    @in_snapshot
    def list(self, connection: Connection) -> list[StoredDataset]:
        columns = [c for c in datasets.c if c.name != "description"]  # it is by far the largest
        rows = connection.execute(select(*columns).order_by(datasets.c.created, datasets.c.identity))
        return [store.to_stored_dataset(row) for row in rows]


def _lock_dataset(tx: Transaction, identity: Identity) -> AnyRow:
    store.lock_datasets(tx)
    return store.read_dataset(tx, identity)


def _claim_for_waiters(tx: Transaction, identity: Identity) -> list[int]:
    """Turn every wait for a dataset into a claim on it; returns the runs that waited."""
    waits = (run_inputs.c.identity == identity, run_inputs.c.claimed.is_(False))
    statement = update(run_inputs).where(*waits).values(claimed=True).returning(run_inputs.c.run_id)
    return sorted(tx.execute(statement).scalars())


def _wake_run(tx: Transaction, run_id: int) -> None:
    """Make a waiting run ready, if all its inputs are available and its output may be produced."""
    is_waiting = exists().where(run_inputs.c.run_id == run_id, run_inputs.c.claimed.is_(False))
    is_producer = exists().where(datasets.c.run_id == run_id, datasets.c.state.in_(PRODUCING_STATES))
    run: AnyRow = read_run(tx.connection, run_id, lock=True)
    if run.state == RunState.WAITING and tx.execute(select(is_producer & ~is_waiting)).scalar():
        update_run(tx, run, state=RunState.READY)
        tx.record_event(EventKind.RUN_RESCHEDULED, run.subject, run_id)


def _select_dataset(identity: Identity) -> Select[tuple[object, ...]]:
    return select(datasets).where(datasets.c.identity == identity)


_to_action = build_reader(SubmittedAction, run="run_id")


def _read_submissions(connection: Connection, rows: Iterable[AnyRow]) -> list[Submission]:
    by_id = {row.id: row for row in rows}
    action_rows = connection.execute(_ACTIONS.where(actions.c.submission_id.in_(by_id))).all() if by_id else []
    run_ids = {row.run_id for row in action_rows if row.run_id is not None}
    queries = (select(runs).where(runs.c.id.in_(part)) for part in split_batches(run_ids))
    runs_by_id = {row.id: to_run(row) for query in queries for row in connection.execute(query)}
    actions_by_submission: dict[int, list[SubmittedAction]] = {number: [] for number in by_id}
    for row in action_rows:
        action = replace(_to_action(row), run=runs_by_id.get(row.run_id))
        actions_by_submission[row.submission_id].append(action)
    return [Submission(n, row.workflow, row.user, row.at, tuple(actions_by_submission[n])) for n, row in by_id.items()]
