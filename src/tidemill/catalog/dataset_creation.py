"""What the run of an action made becomes a dataset, and wakes those who wait for it; in one transaction."""

from __future__ import annotations

from sqlalchemy import exists, select, update

from tidemill.catalog import datasets as store
from tidemill.catalog.commits import finish_run
from tidemill.catalog.events import EventKind
from tidemill.catalog.oneshot_tables import datasets, needs
from tidemill.catalog.queries import read_run
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.runs import update_run
from tidemill.catalog.transaction import Transaction
from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.run import RunClaim, RunState
from tidemill.model.states import PRODUCED, DatasetState
from tidemill.model.submission import ActionResult

_DONE = {
    DatasetState.TO_STORE: DatasetState.STORED,
    DatasetState.TO_LEAF: DatasetState.LEAF,
    DatasetState.TO_DELETE: DatasetState.STORED_TO_DELETE,
}


def commit_dataset(tx: Transaction, claim: RunClaim, product: ActionResult) -> None:
    """Commit the run of an action: its dataset can be read, and is claimed for all who waited for it."""
    store.lock_datasets(tx)
    size = {"rows": sum(f.rows for f in product.files), "bytes": sum(f.bytes for f in product.files)}
    run = finish_run(tx, claim, {"seconds": product.seconds, **size}, product.log)
    row = tx.connection.execute(select(datasets).where(datasets.c.run_id == run.id)).one()
    waiting = _claim_for_waiters(tx, row.identity)
    after = store.to_dataset(row)
    after = after.transition_to(_DONE[after.state])
    for _ in waiting:
        after = after.add_claim()
    store.save_dataset(tx, row, after, **size, **_build_dataset_values(tx, product))
    store.release_claims(tx, run.id)
    for number in waiting:
        wake_run(tx, number)


def _build_dataset_values(tx: Transaction, product: ActionResult) -> Json:
    files = [[f.path, f.rows, f.bytes] for f in product.files]
    moment = {"made": tx.now, "used": tx.now}
    return {"schema": product.schema, "files": files, "seconds": product.seconds, **moment}


def _claim_for_waiters(tx: Transaction, identity: Identity) -> list[int]:
    """Every wait for a dataset becomes a claim on it; returns the runs that waited."""
    unmade = (needs.c.identity == identity, needs.c.claimed.is_(False))
    turned = update(needs).where(*unmade).values(claimed=True).returning(needs.c.run_id)
    return sorted(tx.connection.execute(turned).scalars())


def wake_run(tx: Transaction, number: int) -> None:
    """Make a waiting run ready, if all that it reads is there and what it makes may be made."""
    awaited = exists().where(needs.c.run_id == number, needs.c.claimed.is_(False))
    makes = exists().where(datasets.c.run_id == number, datasets.c.state.in_(PRODUCED))
    run: AnyRow = read_run(tx.connection, number, lock=True)
    if run.state == RunState.WAITING and tx.connection.execute(select(makes & ~awaited)).scalar():
        update_run(tx, run, state=RunState.READY)
        tx.record_event(EventKind.RUN_WOKEN, run.subject, number)
