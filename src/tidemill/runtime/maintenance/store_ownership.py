"""Ownership of a block store: its marker names the catalog that owns it, and the catalog's clock.

Both are checked when a catalog and a store are opened together, and again before anything is deleted. The marker is
always read before the catalog, and the store is listed before the catalog is queried: a catalog never goes back by
itself, so it must know everything that the store showed before. Several servers may write the marker concurrently; each
writes a clock that the catalog had committed before, so no marker is ever ahead of its catalog.
"""

from dataclasses import replace

from tidemill.errors import StoreMismatch
from tidemill.model.store import StoreMarker
from tidemill.model.timestamps import format_version
from tidemill.ports.catalog import Catalog, CatalogReader, FileQueries
from tidemill.ports.records import CatalogIdentity
from tidemill.ports.storage import BlockStore

SAMPLE = 100
"""Number of referenced files, or of runs with a directory, by which a store without a marker is recognised."""

_ADOPT = "to make this catalog the owner of the store as it is, run tidemill adopt-store. Nothing was changed"


def check_store(catalog: CatalogReader, store: BlockStore) -> StoreMarker:
    """Raise `StoreMismatch` unless this catalog owns the store; it takes a store without an owner."""
    marker = store.read_marker()
    if marker is None:
        return _claim_unmarked_store(catalog, store)
    return _check_marker(store, marker, catalog.read_identity())


def advance_marker(catalog: CatalogReader, store: BlockStore) -> None:
    """Write the catalog's current clock to the marker."""
    marker, identity = check_store(catalog, store), catalog.read_identity()
    if identity.clock > marker.clock:
        store.write_marker(replace(marker, clock=identity.clock))


def adopt_store(catalog: Catalog, store: BlockStore) -> StoreMarker | None:
    """Make this catalog the owner of the store, regardless of its marker; returns the previous marker, if any.

    Nothing is deleted. Files of other catalogs' runs stay, and this catalog never removes them.
    """
    try:
        before = store.read_marker()
    except StoreMismatch:  # the marker is unreadable
        before = None
    inherited = max(store.list_runs(), default=0)
    identity = catalog.read_identity()
    store.write_marker(StoreMarker(identity.id, identity.clock, catalog.read_time(), inherited))
    catalog.files.record_adoption(store.name, None if before is None else before.catalog)
    return before


def check_not_rolled_back(catalog: CatalogReader, store: BlockStore) -> None:
    """Raise `StoreMismatch` if the store holds runs that the catalog has neither begun nor found when it adopted it."""
    marker, runs = store.read_marker(), store.list_runs()
    newest = catalog.read_identity().newest_run
    later = [run for run in runs if run > max(newest, 0 if marker is None else marker.inherited)]
    if later:
        raise StoreMismatch(
            f"the catalog is older than its block store {store.name}, or empty: its newest run is {newest}, and the "
            f"store holds directories of later ones, {len(later)} in all, up to run {later[-1]}. Is "
            "TIDEMILL_CATALOG_URL, or url under [catalog], right? Restore the newest copy of the catalog; "
            f"{_ADOPT}"
        )


def _check_marker(store: BlockStore, marker: StoreMarker, identity: CatalogIdentity) -> StoreMarker:
    if marker.catalog != identity.id:
        raise StoreMismatch(
            f"the block store {store.name} belongs to another catalog: expected the one with the id {marker.catalog}, "
            f"found {identity.id}. Is TIDEMILL_CATALOG_URL, or url under [catalog], wrong, or is the catalog new or "
            f"empty? Open the right one, restore it, or choose another store; {_ADOPT}"
        )
    if identity.clock < marker.clock:
        raise StoreMismatch(
            f"the catalog is older than its block store {store.name}: expected a clock of at least "
            f"{format_version(marker.clock)}, found {format_version(identity.clock)}. The catalog was probably "
            f"restored from a copy; data written by runs since is still in the store. Restore a newer copy; {_ADOPT}"
        )
    return marker


def _claim_unmarked_store(catalog: CatalogReader, store: BlockStore) -> StoreMarker:
    """Mark a store that is new, or that this catalog used before stores had markers."""
    check_not_rolled_back(catalog, store)
    if not _is_recognised(catalog.files, store):
        raise StoreMismatch(
            f"nothing shows that the block store {store.name} is this catalog's: expected the files that the "
            "catalog references, or an empty store without any, found neither. Is TIDEMILL_STORAGE_URL, or url under "
            f"[storage], right? Then restore the blocks, or the catalog that references them; {_ADOPT}"
        )
    identity = catalog.read_identity()
    store.write_marker(StoreMarker(identity.id, identity.clock, catalog.read_time()))
    return check_store(catalog, store)  # another catalog may have marked it at the same time


def _is_recognised(files: FileQueries, store: BlockStore) -> bool:
    newest = files.list_newest(SAMPLE)
    if newest:
        return len(store.find_missing(newest)) < len(newest)
    runs = store.list_runs()[-SAMPLE:]
    return not runs or bool(files.find_attempts(list(store.list_attempts(runs))))
