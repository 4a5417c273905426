"""Eviction of datasets in three steps: they are chosen, their files are deleted, and the deletion is recorded.

Between the first two steps a request for the dataset rescues it. From the second step on it cannot be read, so that no
reader finds only a part of its files; after a crash, any server that finds it in that state deletes the remaining ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, select

from tidemill.catalog import datasets as store
from tidemill.catalog.dataset_creation import wake_run
from tidemill.catalog.events import EventKind
from tidemill.catalog.oneshot_tables import datasets, run_inputs
from tidemill.catalog.removals import mark_files
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.transaction import Transaction
from tidemill.errors import Conflict
from tidemill.model.identity import Identity
from tidemill.model.states import DatasetState


def evict_datasets(tx: Transaction, dataset_ids: Iterable[Identity]) -> list[Identity]:
    """Choose datasets for deletion; returns them. Those that are no longer stored, or are claimed or pinned, stay."""
    store.lock_datasets(tx)
    rows = [r for r in store.find_datasets(tx, dataset_ids).values() if _is_evictable(r)]
    for row in rows:
        store.save_dataset(tx, row, store.to_dataset(row).mark_for_eviction())
    return [row.identity for row in rows]


def _is_evictable(row: AnyRow) -> bool:
    return row.state == DatasetState.STORED and not row.claims and not row.pinned


def pin_dataset(tx: Transaction, identity: Identity, *, pinned: bool) -> None:
    """Pin or unpin a dataset. Pinning excludes it from eviction and cancels a pending one."""
    store.lock_datasets(tx)
    row = store.read_dataset(tx, identity)
    if row.pinned == pinned:
        return
    before = store.to_dataset(row)
    store.save_dataset(tx, row, before.pin() if pinned else before.unpin())
    kind = EventKind.DATASET_PINNED if pinned else EventKind.DATASET_UNPINNED
    tx.record_event(kind, f"{row.workflow}/{row.name}", row.run_id, identity=identity)


def drop_dataset(tx: Transaction, identity: Identity) -> None:
    """Delete a leaf on the user's request: at once, or after the last claim is released."""
    store.lock_datasets(tx)
    row = store.read_dataset(tx, identity)
    if row.state != DatasetState.LEAF:
        raise Conflict(f"dataset {row.name} is {row.state}, not a leaf; only leaves can be deleted by users")
    if row.pinned:
        raise Conflict(f"dataset {row.name} is pinned; unpin it first")
    target = DatasetState.STORED_TO_DELETE if row.claims else DatasetState.PROCESSING
    store.save_dataset(tx, row, store.to_dataset(row).transition_to(target))


def mark_lost(tx: Transaction, identity: Identity) -> None:
    """Record that a dataset's files are lost or damaged, so that the next request recomputes it.

    The remaining files are marked for removal.
    """
    store.lock_datasets(tx)
    row = store.read_dataset(tx, identity)
    if row.state in (DatasetState.STORED, DatasetState.LEAF, DatasetState.STORED_TO_DELETE, DatasetState.PROCESSING):
        tx.connection.execute(delete(run_inputs).where(run_inputs.c.identity == identity, run_inputs.c.claimed))
        mark_files(tx, {path: row.run_id for path, _, _ in row.files})
        store.save_dataset(tx, row, store.to_dataset(row).transition_to(DatasetState.DELETED), files=[])


def list_pending_evictions(connection: Connection) -> list[Identity]:
    """Datasets chosen for deletion, by this process or one that died, that are not yet deleted."""
    states = (DatasetState.PROCESSING, DatasetState.DELETING)
    query = select(datasets.c.identity).where(datasets.c.state.in_(states)).order_by(datasets.c.identity)
    return list(connection.execute(query).scalars())


def begin_deletion(tx: Transaction, identity: Identity) -> list[str] | None:
    """Make a dataset unreadable; returns the paths of its files. None: it was rescued, or is already deleted."""
    store.lock_datasets(tx)
    row = store.read_dataset(tx, identity)
    if row.state not in (DatasetState.PROCESSING, DatasetState.DELETING):
        return None
    # From now on run_id names a run that waits to recompute it.
    run = row.run_id if row.state == DatasetState.DELETING else None
    store.save_dataset(tx, row, store.to_dataset(row).transition_to(DatasetState.DELETING), run_id=run)
    return [path for path, _, _ in row.files]


def finish_deletion(tx: Transaction, identity: Identity) -> None:
    """Record that a dataset's files are deleted, and wake the run that waits to recompute it."""
    store.lock_datasets(tx)
    row = store.read_dataset(tx, identity)
    if row.state != DatasetState.DELETING:
        return
    store.save_dataset(tx, row, store.to_dataset(row).transition_to(DatasetState.DELETED), files=[])
    if row.run_id is not None:
        deleted = store.read_dataset(tx, identity)
        next_state = DatasetState.TO_LEAF if row.is_leaf else DatasetState.TO_STORE
        store.save_dataset(tx, deleted, store.to_dataset(deleted).transition_to(next_state))
        wake_run(tx, row.run_id)
