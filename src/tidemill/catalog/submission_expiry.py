"""Expiry of old submissions and events, except those still needed.

A submission is needed while one of its runs has not ended, while a copy of a dataset is pending, if it is the newest
of its workflow (for explaining changes), and if it is the newest to request a dataset that exists or is pinned (for
eviction decisions, and to show the dataset's origin).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Select, and_, delete, exists, func, or_, select, update

from tidemill.catalog.dataset_states import lock_datasets
from tidemill.catalog.files import HAS_PENDING_REMOVALS
from tidemill.catalog.notices import NOTICES
from tidemill.catalog.queries import split_batches
from tidemill.catalog.run_expiry import select_newest_run
from tidemill.catalog.tables import actions, consumer_offsets, datasets, events, logs, runs, submissions
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.usage import expire_tallies, list_submitted_actions, record_tallies
from tidemill.model.run import RunKind, RunState
from tidemill.model.states import DatasetState
from tidemill.model.submission import ExpiredHistory

BATCH_SIZE = 100
"""Submissions, or five times as many events, that expire in one transaction, so that its locks are held briefly."""

TALLY_RETENTION_SECONDS = 400 * 86_400.0
"""Seconds that hourly totals are kept: a year, and some weeks to compare it with."""

_ENDED = (RunState.FINISHED, RunState.FAILED, RunState.KILLED)


def expire_submissions(tx: Transaction, age: float) -> ExpiredHistory:
    """Delete one batch of submissions and events older than `age` seconds."""
    lock_datasets(tx)
    expired = list(tx.execute(_select_expirable(tx.now - age)).scalars())
    counts = _delete_submissions(tx, expired) if expired else (0, 0)
    expire_tallies(tx, tx.now - TALLY_RETENTION_SECONDS)
    return ExpiredHistory(len(expired), *counts, _delete_events(tx, tx.now - age))


def _select_expirable(before: float) -> Select[int]:
    old = select(submissions.c.id).where(submissions.c.at < before, ~_is_newest(), ~_has_action(_is_needed()))
    return old.order_by(submissions.c.id).limit(BATCH_SIZE)


def _is_newest() -> ColumnElement[bool]:
    other = submissions.alias()
    return ~exists().where(other.c.workflow == submissions.c.workflow, other.c.id > submissions.c.id)


def _has_action(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether the submission has an action for which the condition holds."""
    joined = actions.join(datasets).outerjoin(runs, runs.c.id == actions.c.run_id)
    of_submission = actions.c.submission_id == submissions.c.id
    return exists().select_from(joined).where(of_submission, condition).correlate(submissions)


def _is_needed() -> ColumnElement[bool]:
    later_actions = actions.alias()
    is_newer = (later_actions.c.identity == actions.c.identity, later_actions.c.submission_id > actions.c.submission_id)
    is_requested_again = exists().where(*is_newer).correlate(actions)
    exists_or_pinned = or_(datasets.c.state != DatasetState.DELETED, datasets.c.pinned)
    is_copy_pending = and_(actions.c.path.is_not(None), actions.c.copied_at.is_(None), exists_or_pinned)
    return or_(runs.c.state.not_in(_ENDED), is_copy_pending, and_(exists_or_pinned, ~is_requested_again))


def _delete_submissions(tx: Transaction, submission_ids: Sequence[int]) -> tuple[int, int]:
    """Delete submissions; returns the numbers of datasets and runs deleted with them."""
    of_submissions = actions.c.submission_id.in_(submission_ids)
    record_tallies(tx, list(list_submitted_actions(tx.connection, [submissions.c.id.in_(submission_ids)])))
    identities = list(tx.execute(select(actions.c.identity).where(of_submissions)).scalars())
    tx.execute(delete(actions).where(of_submissions))
    tx.execute(delete(submissions).where(submissions.c.id.in_(submission_ids)))
    dataset_count = sum(_delete_datasets(tx, batch) for batch in split_batches(identities))
    return dataset_count, sum(_delete_runs(tx, batch) for batch in split_batches(tx.execute(_FREE_RUNS).scalars()))


def _delete_datasets(tx: Transaction, identities: Collection[str]) -> int:
    """Delete the rows of deleted datasets that no action refers to.

    The newest generation of a result stays: otherwise an older one, from before it was forced, would be reused.
    """
    other = datasets.alias()
    has_newer = exists().where(
        other.c.unforced_identity == datasets.c.unforced_identity, other.c.generation > datasets.c.generation
    )
    conditions = (
        datasets.c.identity.in_(identities),
        datasets.c.state == DatasetState.DELETED,
        ~exists().where(actions.c.identity == datasets.c.identity),
        or_(datasets.c.generation == 0, has_newer),
    )
    tx.execute(update(datasets).where(*conditions[:3]).values(run_id=None))
    return tx.execute(delete(datasets).where(*conditions)).rowcount


_FREE_RUNS = select(runs.c.id).where(
    runs.c.kind == RunKind.ACTION,
    runs.c.state.in_(_ENDED),
    ~exists().where(actions.c.run_id == runs.c.id),
    ~exists().where(datasets.c.run_id == runs.c.id),
    ~HAS_PENDING_REMOVALS,
    runs.c.id != select_newest_run(events),
    runs.c.id < select(func.max(runs.c.id)).scalar_subquery(),
)
"""Unreferenced runs of actions. The newest run stays: SQLite would reuse its id."""


def _delete_runs(tx: Transaction, run_ids: Sequence[int]) -> int:
    for table in (logs, events):
        tx.execute(delete(table).where(table.c.run_id.in_(run_ids)))
    return tx.execute(delete(runs).where(runs.c.id.in_(run_ids))).rowcount


def _delete_events(tx: Transaction, before: float) -> int:
    """Delete old events that belong to no run, except the newest one and those that notices are pending for."""
    newest = select(func.max(events.c.id)).scalar_subquery()
    offset = select(consumer_offsets.c.event).where(consumer_offsets.c.name == NOTICES).scalar_subquery()
    noticed = func.coalesce(offset, newest)
    conditions = (events.c.run_id.is_(None), events.c.at < before, events.c.id <= noticed, events.c.id < newest)
    oldest = select(events.c.id).where(*conditions).order_by(events.c.id).limit(5 * BATCH_SIZE)
    return tx.execute(delete(events).where(events.c.id.in_(oldest))).rowcount
