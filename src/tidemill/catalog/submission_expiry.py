"""Forgetting what was submitted long ago, and what happened then; never what something still needs.

A submission is needed while one of its runs has not ended, while a copy is still to be put in place, if it is the
newest of its workflow (by which changes are explained), and if it is the newest to ask for a dataset that is there or
pinned (by which eviction decides, and people learn where it came from).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Select, and_, delete, exists, func, or_, select, update

from tidemill.catalog import datasets as store
from tidemill.catalog import hourly_totals
from tidemill.catalog.garbage_collection import split_ids
from tidemill.catalog.notices import NOTICES
from tidemill.catalog.oneshot_tables import actions, datasets, submissions
from tidemill.catalog.removals import IS_AWAITED
from tidemill.catalog.run_expiry import select_newest_run
from tidemill.catalog.tables import events, logs, places, runs
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.usage_history import list_submitted_actions
from tidemill.model.run import RunKind, RunState
from tidemill.model.states import DatasetState
from tidemill.model.submission import ExpiredHistory

AT_ONCE = 100
"""Submissions, or five times as many events, forgotten in one transaction, so that nobody waits long for its locks."""

FIGURES = 400 * 86_400.0
"""Seconds that figures by the hour are kept: a year, and what it is compared with."""

_ENDED = (RunState.FINISHED, RunState.FAILED, RunState.KILLED)


def expire_submissions(tx: Transaction, age: float) -> ExpiredHistory:
    """Forget some of the submissions and events that are older than so many seconds."""
    store.lock_datasets(tx)
    gone = list(tx.connection.execute(_select_expirable(tx.now - age)).scalars())
    counts = _delete_submissions(tx, gone) if gone else (0, 0)
    hourly_totals.expire_tallies(tx, tx.now - FIGURES)
    return ExpiredHistory(len(gone), *counts, _delete_events(tx, tx.now - age))


def _select_expirable(before: float) -> Select[int]:
    old = select(submissions.c.id).where(submissions.c.at < before, ~_is_newest(), ~_has_action(_is_needed()))
    return old.order_by(submissions.c.id).limit(AT_ONCE)


def _is_newest() -> ColumnElement[bool]:
    other = submissions.alias()
    return ~exists().where(other.c.workflow == submissions.c.workflow, other.c.id > submissions.c.id)


def _has_action(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Does the submission have an action of which this is so?"""
    joined = actions.join(datasets).outerjoin(runs, runs.c.id == actions.c.run_id)
    of_it = actions.c.submission_id == submissions.c.id
    return exists().select_from(joined).where(of_it, condition).correlate(submissions)


def _is_needed() -> ColumnElement[bool]:
    later = actions.alias()
    newer = (later.c.identity == actions.c.identity, later.c.submission_id > actions.c.submission_id)
    asked_again = exists().where(*newer).correlate(actions)
    there = or_(datasets.c.state != DatasetState.DELETED, datasets.c.pinned)
    to_place = and_(actions.c.path.is_not(None), actions.c.placed.is_(None), there)
    return or_(runs.c.state.not_in(_ENDED), to_place, and_(there, ~asked_again))


def _delete_submissions(tx: Transaction, gone: Sequence[int]) -> tuple[int, int]:
    """Returns how many datasets and runs were forgotten with them."""
    theirs = actions.c.submission_id.in_(gone)
    hourly_totals.record_tallies(tx, list(list_submitted_actions(tx.connection, [submissions.c.id.in_(gone)])))
    asked = list(tx.connection.execute(select(actions.c.identity).where(theirs)).scalars())
    tx.connection.execute(delete(actions).where(theirs))
    tx.connection.execute(delete(submissions).where(submissions.c.id.in_(gone)))
    forgotten = sum(_delete_datasets(tx, part) for part in store.split_identities(asked))
    return forgotten, sum(_delete_runs(tx, part) for part in split_ids(tx.connection.execute(_FREE_RUNS).scalars()))


def _delete_datasets(tx: Transaction, identities: Collection[str]) -> int:
    """Those that are gone and that nobody asks for any more.

    The newest generation of a result stays known: else an older one, from before it was forced, would be taken for it.
    """
    other = datasets.alias()
    newer = exists().where(other.c.plain == datasets.c.plain, other.c.generation > datasets.c.generation)
    unknown = (
        datasets.c.identity.in_(identities),
        datasets.c.state == DatasetState.DELETED,
        ~exists().where(actions.c.identity == datasets.c.identity),
        or_(datasets.c.generation == 0, newer),
    )
    tx.connection.execute(update(datasets).where(*unknown[:3]).values(run_id=None))
    return tx.connection.execute(delete(datasets).where(*unknown)).rowcount


_FREE_RUNS = select(runs.c.id).where(
    runs.c.kind == RunKind.ACTION,
    runs.c.state.in_(_ENDED),
    ~exists().where(actions.c.run_id == runs.c.id),
    ~exists().where(datasets.c.run_id == runs.c.id),
    ~IS_AWAITED,
    runs.c.id != select_newest_run(events),
    runs.c.id < select(func.max(runs.c.id)).scalar_subquery(),
)
"""Runs of actions that nobody speaks of. The newest run stays: SQLite would give its number to the next one."""


def _delete_runs(tx: Transaction, gone: Sequence[int]) -> int:
    for table in (logs, events):
        tx.connection.execute(delete(table).where(table.c.run_id.in_(gone)))
    return tx.connection.execute(delete(runs).where(runs.c.id.in_(gone))).rowcount


def _delete_events(tx: Transaction, before: float) -> int:
    """Those of runs go with their runs. What notices are still to be made of stays, and so does the newest."""
    newest = select(func.max(events.c.id)).scalar_subquery()
    place = select(places.c.event).where(places.c.name == NOTICES).scalar_subquery()
    made = func.coalesce(place, newest)
    free = (events.c.run_id.is_(None), events.c.at < before, events.c.id <= made, events.c.id < newest)
    oldest = select(events.c.id).where(*free).order_by(events.c.id).limit(5 * AT_ONCE)
    return tx.connection.execute(delete(events).where(events.c.id.in_(oldest))).rowcount
