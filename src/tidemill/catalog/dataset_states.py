"""Datasets in the catalog: each transition is a conditional update, and legal only by `model/states.py`.

Transactions that change dataset states hold one common lock, so that the rows they read are still current when they
write. On SQLite that is the write lock. Such transactions are short: they compute nothing and touch no files.
"""

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import delete, select, update

from tidemill.catalog.engine import acquire_lock
from tidemill.catalog.events import EventKind
from tidemill.catalog.queries import split_batches
from tidemill.catalog.rows import AnyRow, build_reader
from tidemill.catalog.tables import datasets, run_inputs
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict, NotFound
from tidemill.model.block import DataFile
from tidemill.model.identity import Identity
from tidemill.model.states import PRODUCING_STATES, Dataset, DatasetState
from tidemill.model.submission import StoredDataset

_LOCK = 0x71DE0003


def lock_datasets(tx: Transaction) -> None:
    """Lock the states of all datasets until the transaction ends."""
    acquire_lock(tx.connection, _LOCK)


def find_datasets(tx: Transaction, identities: Iterable[Identity]) -> dict[Identity, AnyRow]:
    """The rows of the known datasets among `identities`."""
    queries = (select(datasets).where(datasets.c.identity.in_(batch)) for batch in split_batches(identities))
    return {row.identity: row for query in queries for row in tx.execute(query)}


def read_dataset(tx: Transaction, identity: Identity) -> AnyRow:
    row = tx.execute(select(datasets).where(datasets.c.identity == identity)).one_or_none()
    if row is None:
        raise NotFound(f"there is no dataset {identity}; list the stored ones with: tidemill storage")
    return row


to_dataset = build_reader(Dataset)


def save_dataset(tx: Transaction, row: AnyRow, dataset: Dataset, **values: Any) -> None:
    """Write a dataset's new state, provided that it has not changed since it was read."""
    unchanged = (datasets.c.identity == row.identity, datasets.c.state == row.state, datasets.c.version == row.version)
    if not tx.execute(update(datasets).where(*unchanged).values(asdict(dataset) | values)).rowcount:
        raise Conflict(f"dataset {row.name} is no longer {row.state} as of version {row.version}; read it again")
    if dataset.state != row.state:
        details = {"identity": row.identity, "before": row.state, "after": dataset.state}
        tx.record_event(
            EventKind.DATASET_MOVED, f"{row.workflow}/{row.name}", values.get("run_id", row.run_id), **details
        )


def release_claims(tx: Transaction, run: int) -> None:
    """Release the claims of an ended run. The last release of a dataset chosen for deletion starts its deletion."""
    claimed = select(run_inputs.c.identity).where(run_inputs.c.run_id == run, run_inputs.c.claimed)
    for row in find_datasets(tx, tx.execute(claimed).scalars()).values():
        save_dataset(tx, row, to_dataset(row).release_claim(), used_at=tx.now)
    tx.execute(delete(run_inputs).where(run_inputs.c.run_id == run))


def abandon_dataset(tx: Transaction, run: int) -> list[int]:
    """Give up the dataset that a run would have produced; returns the runs that wait for it."""
    lock_datasets(tx)
    row = tx.execute(select(datasets).where(datasets.c.run_id == run)).one_or_none()
    waiting_runs: list[int] = []
    if row is not None and row.state in PRODUCING_STATES:
        save_dataset(tx, row, to_dataset(row).transition_to(DatasetState.DELETED))
    if row is not None and row.state in (*PRODUCING_STATES, DatasetState.DELETING):
        is_waiting = (run_inputs.c.identity == row.identity, run_inputs.c.claimed.is_(False))
        query = select(run_inputs.c.run_id).where(*is_waiting).order_by(run_inputs.c.run_id)
        waiting_runs = list(tx.execute(query).scalars())
    if row is not None and row.state == DatasetState.DELETING:  # no run waits any longer to recompute it
        tx.execute(update(datasets).where(datasets.c.identity == row.identity).values(run_id=None))
    release_claims(tx, run)
    return waiting_runs


_to_stored = build_reader(StoredDataset, run="run_id")


def to_stored_dataset(row: AnyRow) -> StoredDataset:
    return replace(_to_stored(row), parents=tuple(row.parents), files=tuple(DataFile(*file) for file in row.files))
