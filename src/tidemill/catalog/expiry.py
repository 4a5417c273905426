"""Expiry of history.

Of each channel and bound flow only the newest runs and those still needed are kept; of submissions those that are young
or needed. A submission is needed while one of its runs has not ended, while a copy of a dataset is pending, if it is
the newest of its workflow (for explaining changes), and if it is the newest to request a dataset that exists or is
pinned (for eviction decisions, and to show the dataset's origin).
"""

from collections import defaultdict
from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Select, Table, and_, delete, exists, func, or_, select, update

from tidemill.catalog.channel_heads import lock_channels
from tidemill.catalog.dataset_states import lock_datasets
from tidemill.catalog.files import HAS_PENDING_REMOVALS
from tidemill.catalog.notices import NOTICES
from tidemill.catalog.queries import split_batches
from tidemill.catalog.tables import (
    IS_TO_PURGE,
    actions,
    blocks,
    channels,
    consumer_offsets,
    datasets,
    events,
    firings,
    insert_keys,
    logs,
    run_reads,
    runs,
    submissions,
)
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.usage import expire_tallies, list_refreshed_tasks, list_submitted_actions, record_tallies
from tidemill.model.block import BlockState
from tidemill.model.run import RunKind, RunState
from tidemill.model.states import DatasetState
from tidemill.model.submission import ExpiredHistory
from tidemill.ports.records import RunExpiryCounts

RUN_BATCH = 500
"""Runs that expire in one transaction, so that its locks are held briefly."""

_ENDED = (RunState.FINISHED, RunState.FAILED, RunState.KILLED)
_RUN_TABLES = (run_reads, logs, events, firings)


def expire_batch(tx: Transaction, subject: str, retain: int) -> RunExpiryCounts:
    """Delete the oldest runs of a subject beyond the newest `retain`, at most `RUN_BATCH` of them."""
    expired = list(tx.execute(_select_expirable(subject, retain)).scalars())
    if not expired:
        return RunExpiryCounts()
    record_tallies(tx, list(list_refreshed_tasks(tx.connection, [runs.c.id.in_(expired)])))
    block_count = _expire_blocks(tx, expired)
    for table in _RUN_TABLES:
        tx.execute(delete(table).where(table.c.run_id.in_(expired)))
    tx.execute(delete(runs).where(runs.c.id.in_(expired)))
    return RunExpiryCounts(len(expired), block_count)


def _select_expirable(subject: str, retain: int) -> Select[int]:
    newest = select(runs.c.id).where(runs.c.subject == subject).order_by(runs.c.id.desc())
    oldest_retained = newest.offset(retain - 1).limit(1).scalar_subquery()
    old = select(runs.c.id).where(runs.c.subject == subject, runs.c.id < oldest_retained, runs.c.state.in_(_ENDED))
    needed_runs = (_select_last_finished(subject), select_newest_run(blocks), select_newest_run(events))
    expirable = old.where(~_is_needed(), *(runs.c.id != run for run in needed_runs))
    return expirable.order_by(runs.c.id).limit(RUN_BATCH)


def _is_needed() -> ColumnElement[bool]:
    """A block of the run is readable or reserved, or its files are not purged yet, or their removal is pending."""
    in_use = or_(blocks.c.state.in_((BlockState.FILLED, BlockState.RESERVED)), IS_TO_PURGE)
    return or_(exists().where(blocks.c.run_id == runs.c.id, in_use), HAS_PENDING_REMOVALS)


def _select_last_finished(subject: str) -> ColumnElement[int]:
    """The last finished run of a bound flow, which gives its progress; 0 if there is none."""
    other = runs.alias()
    is_finished = and_(other.c.subject == subject, other.c.kind == RunKind.FLOW, other.c.state == RunState.FINISHED)
    return func.coalesce(select(func.max(other.c.id)).where(is_finished).scalar_subquery(), 0)


def select_newest_run(table: Table) -> ColumnElement[int]:
    """The run of the newest row. It must stay: SQLite would reuse the id of a deleted newest row."""
    newest = select(table.c.run_id).order_by(table.c.id.desc()).limit(1)
    return func.coalesce(newest.scalar_subquery(), 0)


def _expire_blocks(tx: Transaction, run_ids: Collection[int]) -> int:
    """Delete the block rows of the runs: cancelled reservations, and garbage-collected and purged blocks."""
    query = select(blocks.c.channel_id, blocks.c.seq, blocks.c.visible).where(blocks.c.run_id.in_(run_ids))
    block_rows = tx.execute(query).all()
    newest: dict[int, int] = defaultdict(int)
    for block in block_rows:
        newest[block.channel_id] = max(newest[block.channel_id], block.seq if block.visible is not None else 0)
    for channel in lock_channels(tx, channels.c.id.in_(newest)) if newest else ():
        upto = max(channel.expired_seq, newest[channel.id])
        tx.execute(update(channels).where(channels.c.id == channel.id).values(expired_seq=upto))
    block_ids = select(blocks.c.id).where(blocks.c.run_id.in_(run_ids))
    tx.execute(delete(insert_keys).where(insert_keys.c.block_id.in_(block_ids)))
    tx.execute(delete(blocks).where(blocks.c.run_id.in_(run_ids)))
    return len(block_rows)


SUBMISSION_BATCH = 100
"""Submissions, or five times as many events, that expire in one transaction, so that its locks are held briefly."""

TALLY_RETENTION_SECONDS = 400 * 86_400.0
"""Seconds that hourly totals are kept: a year, and some weeks to compare it with."""


def expire_submissions(tx: Transaction, age: float) -> ExpiredHistory:
    """Delete one batch of submissions and events older than `age` seconds."""
    lock_datasets(tx)
    expired = list(tx.execute(_select_expirable_submissions(tx.now - age)).scalars())
    counts = _delete_submissions(tx, expired) if expired else (0, 0)
    expire_tallies(tx, tx.now - TALLY_RETENTION_SECONDS)
    return ExpiredHistory(len(expired), *counts, _delete_events(tx, tx.now - age))


def _select_expirable_submissions(before: float) -> Select[int]:
    old = select(submissions.c.id).where(submissions.c.at < before, ~_is_newest(), ~_has_action(_is_action_needed()))
    return old.order_by(submissions.c.id).limit(SUBMISSION_BATCH)


def _is_newest() -> ColumnElement[bool]:
    other = submissions.alias()
    return ~exists().where(other.c.workflow == submissions.c.workflow, other.c.id > submissions.c.id)


def _has_action(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether the submission has an action for which the condition holds."""
    joined = actions.join(datasets).outerjoin(runs, runs.c.id == actions.c.run_id)
    of_submission = actions.c.submission_id == submissions.c.id
    return exists().select_from(joined).where(of_submission, condition).correlate(submissions)


def _is_action_needed() -> ColumnElement[bool]:
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
    oldest = select(events.c.id).where(*conditions).order_by(events.c.id).limit(5 * SUBMISSION_BATCH)
    return tx.execute(delete(events).where(events.c.id.in_(oldest))).rowcount
