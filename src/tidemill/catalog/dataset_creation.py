"""Committing the run of an action: its output becomes a dataset, and waiting runs are woken, in one transaction."""

from __future__ import annotations

from sqlalchemy import exists, select, update

from tidemill.catalog import datasets as store
from tidemill.catalog.commits import finish_run
from tidemill.catalog.events import EventKind
from tidemill.catalog.oneshot_tables import datasets, run_inputs
from tidemill.catalog.queries import read_run
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.runs import update_run
from tidemill.catalog.transaction import Transaction
from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.run import RunClaim, RunState
from tidemill.model.states import PRODUCING_STATES, DatasetState
from tidemill.model.submission import ActionResult

_COMMITTED_STATE = {
    DatasetState.TO_STORE: DatasetState.STORED,
    DatasetState.TO_LEAF: DatasetState.LEAF,
    DatasetState.TO_DELETE: DatasetState.STORED_TO_DELETE,
}


def commit_dataset(tx: Transaction, claim: RunClaim, result: ActionResult) -> None:
    """Commit the run of an action: its dataset becomes readable, with a claim for every run that waited for it."""
    store.lock_datasets(tx)
    size = {"rows": sum(file.rows for file in result.files), "bytes": sum(file.bytes for file in result.files)}
    run = finish_run(tx, claim, {"seconds": result.seconds, **size}, result.log)
    row = tx.connection.execute(select(datasets).where(datasets.c.run_id == run.id)).one()
    waiting_runs = _claim_for_waiters(tx, row.identity)
    dataset = store.to_dataset(row)
    dataset = dataset.transition_to(_COMMITTED_STATE[dataset.state])
    for _ in waiting_runs:
        dataset = dataset.add_claim()
    store.save_dataset(tx, row, dataset, **size, **_build_dataset_values(tx, result))
    store.release_claims(tx, run.id)
    for run_id in waiting_runs:
        wake_run(tx, run_id)


def _build_dataset_values(tx: Transaction, product: ActionResult) -> Json:
    files = [[file.path, file.rows, file.bytes] for file in product.files]
    times = {"computed_at": tx.now, "used_at": tx.now}
    return {"schema": product.schema, "files": files, "seconds": product.seconds, **times}


def _claim_for_waiters(tx: Transaction, identity: Identity) -> list[int]:
    """Turn every wait for a dataset into a claim on it; returns the runs that waited."""
    waits = (run_inputs.c.identity == identity, run_inputs.c.claimed.is_(False))
    statement = update(run_inputs).where(*waits).values(claimed=True).returning(run_inputs.c.run_id)
    return sorted(tx.connection.execute(statement).scalars())


def wake_run(tx: Transaction, run_id: int) -> None:
    """Make a waiting run ready, if all its inputs are available and its output may be produced."""
    is_waiting = exists().where(run_inputs.c.run_id == run_id, run_inputs.c.claimed.is_(False))
    is_producer = exists().where(datasets.c.run_id == run_id, datasets.c.state.in_(PRODUCING_STATES))
    run: AnyRow = read_run(tx.connection, run_id, lock=True)
    if run.state == RunState.WAITING and tx.connection.execute(select(is_producer & ~is_waiting)).scalar():
        update_run(tx, run, state=RunState.READY)
        tx.record_event(EventKind.RUN_RESCHEDULED, run.subject, run_id)
