"""Datasets go, in three steps: they are chosen, their files are deleted, and then that is so.

Between the first two anybody who wants one rescues it. From the second on nobody can read it, so that no reader ever
meets half of its files; whoever finds it in that state, after whatever crash, deletes what is left of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, select

from tidemill.catalog import datasets as store
from tidemill.catalog.dataset_creation import wake_run
from tidemill.catalog.events import EventKind
from tidemill.catalog.oneshot_tables import datasets, needs
from tidemill.catalog.removals import mark_files
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict
from tidemill.model.identity import Identity
from tidemill.model.states import DatasetState


def evict_datasets(tx: Transaction, chosen: Iterable[Identity]) -> list[Identity]:
    """Choose datasets to go. What is not stored any more, or claimed or pinned by now, is left; returns the others."""
    store.lock_datasets(tx)
    rows = [r for r in store.find_datasets(tx, chosen).values() if _is_evictable(r)]
    for row in rows:
        store.save_dataset(tx, row, store.to_dataset(row).mark_for_eviction())
    return [row.identity for row in rows]


def _is_evictable(row: AnyRow) -> bool:
    return row.state == DatasetState.STORED and not row.claims and not row.pinned


def pin_dataset(tx: Transaction, identity: Identity, *, pinned: bool) -> None:
    """Keep a dataset from being evicted, or no longer; what was chosen to go is rescued."""
    store.lock_datasets(tx)
    row = store.read_dataset(tx, identity)
    if row.pinned == pinned:
        return
    before = store.to_dataset(row)
    store.save_dataset(tx, row, before.pin() if pinned else before.unpin())
    kind = EventKind.DATASET_PINNED if pinned else EventKind.DATASET_UNPINNED
    tx.record_event(kind, f"{row.workflow}/{row.name}", row.run_id, identity=identity)


def drop_dataset(tx: Transaction, identity: Identity) -> None:
    """Its user deletes a leaf: at once, or when the last who claims it has read it."""
    store.lock_datasets(tx)
    row = store.read_dataset(tx, identity)
    if row.state != DatasetState.LEAF:
        raise Conflict(f"dataset {row.name} is {row.state}, no leaf; only leaves are deleted by hand")
    if row.pinned:
        raise Conflict(f"dataset {row.name} is pinned; unpin it first")
    goal = DatasetState.STORED_TO_DELETE if row.claims else DatasetState.PROCESSING
    store.save_dataset(tx, row, store.to_dataset(row).transition_to(goal))


def mark_lost(tx: Transaction, identity: Identity) -> None:
    """Its files are gone or damaged: whoever wants it next makes it again. What is left of them is to be removed."""
    store.lock_datasets(tx)
    row = store.read_dataset(tx, identity)
    if row.state in (DatasetState.STORED, DatasetState.LEAF, DatasetState.STORED_TO_DELETE, DatasetState.PROCESSING):
        tx.connection.execute(delete(needs).where(needs.c.identity == identity, needs.c.claimed))
        mark_files(tx, {path: row.run_id for path, _, _ in row.files})
        store.save_dataset(tx, row, store.to_dataset(row).transition_to(DatasetState.DELETED), files=[])


def list_pending_evictions(connection: Connection) -> list[Identity]:
    """Datasets that were chosen to go and are not gone: by this process, or one that died over it."""
    states = (DatasetState.PROCESSING, DatasetState.DELETING)
    query = select(datasets.c.identity).where(datasets.c.state.in_(states)).order_by(datasets.c.identity)
    return list(connection.execute(query).scalars())


def begin_deletion(tx: Transaction, identity: Identity) -> list[str] | None:
    """From now on nobody can read it; returns the paths of its files. None: it was rescued, or is gone."""
    store.lock_datasets(tx)
    row = store.read_dataset(tx, identity)
    if row.state not in (DatasetState.PROCESSING, DatasetState.DELETING):
        return None
    # A run that is named from now on is one that waits to make it again.
    run = row.run_id if row.state == DatasetState.DELETING else None
    store.save_dataset(tx, row, store.to_dataset(row).transition_to(DatasetState.DELETING), run_id=run)
    return [path for path, _, _ in row.files]


def finish_deletion(tx: Transaction, identity: Identity) -> None:
    """Its files are gone. Whoever waits to make it again may do so now."""
    store.lock_datasets(tx)
    row = store.read_dataset(tx, identity)
    if row.state != DatasetState.DELETING:
        return
    store.save_dataset(tx, row, store.to_dataset(row).transition_to(DatasetState.DELETED), files=[])
    if row.run_id is not None:
        gone = store.read_dataset(tx, identity)
        again = DatasetState.TO_LEAF if row.keep else DatasetState.TO_STORE
        store.save_dataset(tx, gone, store.to_dataset(gone).transition_to(again))
        wake_run(tx, row.run_id)
