"""The dataset catalog: submitted one-shot workflows, and the datasets that they write and read."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, Select, func, select, update

from tidemill.catalog import dataset_creation as making
from tidemill.catalog import eviction, hourly_totals, submission_expiry
from tidemill.catalog import submission as submitting
from tidemill.catalog.datasets import split_identities, to_stored_dataset
from tidemill.catalog.events import EventKind
from tidemill.catalog.oneshot_tables import actions, datasets, submissions
from tidemill.catalog.rows import AnyRow, to_run
from tidemill.catalog.tables import runs
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.usage_history import read_usage
from tidemill.catalog.writer import SqlCatalog
from tidemill.errors import NotFound
from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.run import RunClaim
from tidemill.model.states import READABLE_STATES, STATES_WITH_FILES
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
from tidemill.model.usage import UsagePeriod, UsageRecord
from tidemill.retention.usage_history import UsageTally

_ACTIONS = (
    select(actions, datasets.c.bytes)
    .join_from(actions, datasets)
    .order_by(actions.c.submission_id.desc(), actions.c.ordinal)
)


class SqlDatasetCatalog:
    """Reads and changes submissions and datasets, each change in one transaction."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self._catalog = catalog

    # Submissions.

    def read_descriptions(self, identities: Iterable[Identity]) -> dict[Identity, Json]:
        """The recorded descriptions of these datasets."""
        with self._catalog._open_connection() as connection:
            return {
                row.identity: row.description
                for part in split_identities(identities)
                for row in connection.execute(
                    select(datasets.c.identity, datasets.c.description).where(datasets.c.identity.in_(part))
                )
            }

    def read_generations(self) -> dict[Identity, int]:
        """The newest generation of each plain identity that was ever forced."""
        newest = select(datasets.c.unforced_identity, func.max(datasets.c.generation).label("newest"))
        with self._catalog._open_connection() as connection:
            rows = connection.execute(newest.where(datasets.c.generation > 0).group_by(datasets.c.unforced_identity))
            return {row.unforced_identity: row.newest for row in rows}

    def submit_workflow(self, request: SubmissionRequest) -> int:
        return self._catalog.run_transaction(lambda tx: submitting.submit_workflow(tx, request))

    def read_submission(self, number: int) -> Submission:
        with self._catalog._open_connection() as connection:
            row = connection.execute(select(submissions).where(submissions.c.id == number)).one_or_none()
            if row is None:
                newest = connection.execute(select(func.max(submissions.c.id))).scalar()
                hint = "there are none yet" if newest is None else f"the newest is {newest}"
                raise NotFound(f"there is no submission {number}; {hint}")
            return _read_submissions(connection, [row])[0]

    def list_submissions(self, *, before: int | None = None, limit: int = 20) -> list[Submission]:
        """Submissions, the newest first."""
        columns = [c for c in submissions.c if c.name != "document"]
        query = select(*columns).order_by(submissions.c.id.desc()).limit(limit)
        with self._catalog._open_connection() as connection:
            rows = connection.execute(query if before is None else query.where(submissions.c.id < before)).all()
            return _read_submissions(connection, rows)

    def read_usage(self, period: UsagePeriod) -> list[UsageRecord]:
        """All actions submitted and all tasks refreshed within a period."""
        with self._catalog._open_connection() as connection:
            return read_usage(connection, period)

    def read_tallies(self, period: UsagePeriod) -> list[UsageTally]:
        """The hourly totals of expired history."""
        with self._catalog._open_connection() as connection:
            return hourly_totals.read_tallies(connection, period)

    def list_submitted_actions(self, after: int) -> list[tuple[int, str, Identity]]:
        """Number, workflow and identity of every action of later submissions, parents before their children."""
        query = select(submissions.c.id, submissions.c.workflow, actions.c.identity).join_from(actions, submissions)
        ordered = query.where(submissions.c.id > after).order_by(submissions.c.id, actions.c.ordinal)
        with self._catalog._open_connection() as connection:
            return [(row.id, row.workflow, row.identity) for row in connection.execute(ordered)]

    def expire_submissions(self, age: float) -> ExpiredHistory:
        """Expire old submissions in batches, each in a separate transaction."""
        expired = batch = self._catalog.run_transaction(lambda tx: submission_expiry.expire_submissions(tx, age))
        while batch.submissions or batch.events:
            batch = self._catalog.run_transaction(lambda tx: submission_expiry.expire_submissions(tx, age))
            expired += batch
        return expired

    # Runs of actions.

    def read_action_spec(self, run: int) -> ActionSpec:
        """The work of an action's run."""
        query = select(actions, submissions.c.document).join_from(actions, submissions).where(actions.c.run_id == run)
        with self._catalog._open_connection() as connection:
            action = connection.execute(query.order_by(actions.c.submission_id).limit(1)).one_or_none()
            if action is None:
                raise NotFound(f"run {run} belongs to no action of a one-shot workflow")
            row = connection.execute(_select_dataset(action.identity)).one()
            inputs = tuple(to_stored_dataset(connection.execute(_select_dataset(i)).one()) for i in row.parents)
        return ActionSpec(
            action.submission_id, action.document, action.key, row.description, to_stored_dataset(row), inputs
        )

    def commit_dataset(self, claim: RunClaim, result: ActionResult) -> None:
        self._catalog.run_transaction(lambda tx: making.commit_dataset(tx, claim, result))

    def mark_lost(self, identity: Identity) -> None:
        self._catalog.run_transaction(lambda tx: eviction.mark_lost(tx, identity))

    # Copies at users' paths.

    def list_pending_copies(self, submission: int | None = None) -> list[DatasetPlacement]:
        """Requested copies of readable datasets that have not been made."""
        pending = (actions.c.path.is_not(None), actions.c.copied_at.is_(None), datasets.c.state.in_(READABLE_STATES))
        query = select(actions.c.submission_id, actions.c.key, actions.c.path, datasets).join_from(actions, datasets)
        query = query.where(*pending).order_by(actions.c.submission_id, actions.c.ordinal)
        with self._catalog._open_connection() as connection:
            rows = connection.execute(query if submission is None else query.where(_match_submission(submission)))
            return [DatasetPlacement(row.submission_id, row.key, row.path, to_stored_dataset(row)) for row in rows]

    def record_copy(self, placement: DatasetPlacement) -> None:
        self._catalog.run_transaction(lambda tx: _record_copy(tx, placement))

    # Storage.

    def list_datasets(self) -> list[StoredDataset]:
        """All known datasets, the oldest first."""
        with self._catalog._open_connection() as connection:
            columns = [c for c in datasets.c if c.name != "description"]  # it is by far the largest
            rows = connection.execute(select(*columns).order_by(datasets.c.created, datasets.c.identity))
            return [to_stored_dataset(row) for row in rows]

    def read_held_bytes(self) -> dict[str, int]:
        """Bytes that datasets occupy, by workflow; space is free only after the files are deleted."""
        size = func.sum(datasets.c.bytes).label("size")
        query = select(datasets.c.workflow, size).where(datasets.c.state.in_(STATES_WITH_FILES))
        with self._catalog._open_connection() as connection:
            return {row.workflow: int(row.size) for row in connection.execute(query.group_by(datasets.c.workflow))}

    def evict_datasets(self, dataset_ids: Iterable[Identity]) -> list[Identity]:
        identities = list(dataset_ids)
        return self._catalog.run_transaction(lambda tx: eviction.evict_datasets(tx, identities))

    def drop_dataset(self, identity: Identity) -> None:
        self._catalog.run_transaction(lambda tx: eviction.drop_dataset(tx, identity))

    def pin_dataset(self, identity: Identity, *, pinned: bool) -> None:
        self._catalog.run_transaction(lambda tx: eviction.pin_dataset(tx, identity, pinned=pinned))

    def list_pending_evictions(self) -> list[Identity]:
        with self._catalog._open_connection() as connection:
            return eviction.list_pending_evictions(connection)

    def begin_deletion(self, identity: Identity) -> list[str] | None:
        return self._catalog.run_transaction(lambda tx: eviction.begin_deletion(tx, identity))

    def finish_deletion(self, identity: Identity) -> None:
        self._catalog.run_transaction(lambda tx: eviction.finish_deletion(tx, identity))


def _select_dataset(identity: Identity) -> Select[tuple[object, ...]]:
    return select(datasets).where(datasets.c.identity == identity)


def _match_submission(submission: int) -> ColumnElement[bool]:
    return actions.c.submission_id == submission


def _record_copy(tx: Transaction, placement: DatasetPlacement) -> None:
    conditions = (
        _match_submission(placement.submission),
        actions.c.key == placement.key,
        actions.c.copied_at.is_(None),
    )
    if tx.connection.execute(update(actions).where(*conditions).values(copied_at=tx.now)).rowcount:
        dataset = placement.dataset
        details = {"identity": dataset.identity, "path": placement.path, "submission": placement.submission}
        tx.record_event(EventKind.DATASET_EXPORTED, f"{dataset.workflow}/{dataset.name}", dataset.run, **details)


def _read_submissions(connection: Connection, rows: Iterable[AnyRow]) -> list[Submission]:
    by_id = {row.id: row for row in rows}
    action_rows = connection.execute(_ACTIONS.where(actions.c.submission_id.in_(by_id))).all() if by_id else []
    run_ids = {row.run_id for row in action_rows if row.run_id is not None}
    runs_by_id = {row.id: to_run(row) for part in _split_ids(run_ids) for row in connection.execute(_select_runs(part))}
    actions_by_submission: dict[int, list[SubmittedAction]] = {number: [] for number in by_id}
    for row in action_rows:
        run = None if row.run_id is None else runs_by_id[row.run_id]
        values = (
            row.key,
            row.name,
            row.kind,
            row.identity,
            row.verdict,
            row.reason,
            row.saved_seconds,
            row.path,
            row.copied_at,
        )
        actions_by_submission[row.submission_id].append(SubmittedAction(*values, run, row.bytes))
    return [Submission(n, row.workflow, row.user, row.at, tuple(actions_by_submission[n])) for n, row in by_id.items()]


def _split_ids(numbers: Iterable[int]) -> Iterable[list[int]]:
    ordered = sorted(numbers)
    return (ordered[start : start + 500] for start in range(0, len(ordered), 500))


def _select_runs(numbers: list[int]) -> Select[tuple[object, ...]]:
    return select(runs).where(runs.c.id.in_(numbers))
