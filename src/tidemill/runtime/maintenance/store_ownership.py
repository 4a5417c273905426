"""A store belongs to one catalog: its marker says to which, and how far that catalog had come.

Both are checked whenever a catalog and a store are opened together, and again before anything is deleted. The marker
is always read before the catalog, and the store is listed before the catalog is asked what it knows: a catalog never
goes back by itself, so whatever the store shows must be known to it by then. Several servers may write the marker at
once; each writes a reading that the catalog had committed before, so that no marker is ever ahead of its catalog.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.errors import ForeignStore
from tidemill.model.store import StoreMarker
from tidemill.model.timestamps import format_version
from tidemill.ports.catalog import CatalogReader, CatalogWriter
from tidemill.ports.records import CatalogIdentity
from tidemill.ports.storage import BlockStore

SAMPLE = 100
"""Files that the catalog names, or runs that have a directory, by which a store without a marker is recognised."""

_ADOPT = "if this catalog shall own the store as it is from now on, run tidemill adopt-store. Nothing was changed"


def check_store(catalog: CatalogReader, store: BlockStore) -> StoreMarker:
    """Raise `ForeignStore` unless the store is this catalog's; one that is nobody's becomes so."""
    marker = store.read_marker()
    return (
        _claim_unmarked_store(catalog, store)
        if marker is None
        else _check_marker(store, marker, catalog.read_identity())
    )


def advance_marker(catalog: CatalogReader, store: BlockStore) -> None:
    """Let the marker say how far the catalog has come by now."""
    marker, known = check_store(catalog, store), catalog.read_identity()
    if known.clock > marker.clock:
        store.write_marker(replace(marker, clock=known.clock))


def adopt_store(catalog: CatalogWriter, store: BlockStore) -> StoreMarker | None:
    """Let the store belong to this catalog, whatever its marker says; returns the marker that it had, if any.

    Nothing is deleted. What other catalogs' runs wrote stays where it is, and is never removed by this one.
    """
    try:
        before = store.read_marker()
    except ForeignStore:  # it cannot be read
        before = None
    inherited = max(store.list_runs(), default=0)
    known = catalog.read_identity()
    store.write_marker(StoreMarker(known.id, known.clock, catalog.read_time(), inherited))
    catalog.record_adoption(store.name, None if before is None else before.catalog)
    return before


def check_not_rolled_back(catalog: CatalogReader, store: BlockStore) -> None:
    """Raise `ForeignStore` if the store holds directories of runs that the catalog has yet to begin.

    Those that were there when the catalog adopted the store do not count.
    """
    marker, found = store.read_marker(), store.list_runs()
    newest = catalog.read_identity().newest_run
    later = [run for run in found if run > max(newest, 0 if marker is None else marker.inherited)]
    if later:
        raise ForeignStore(
            f"the catalog is older than its block store {store.name}, or empty: its newest run is {newest}, and the "
            f"store holds directories of later ones, {len(later)} in all, up to run {later[-1]}. Is "
            "TIDEMILL_CATALOG_URL, or url under [catalog], right? Restore the newest copy of the catalog; "
            f"{_ADOPT}"
        )


def _check_marker(store: BlockStore, marker: StoreMarker, known: CatalogIdentity) -> StoreMarker:
    if marker.catalog != known.id:
        raise ForeignStore(
            f"the block store {store.name} belongs to another catalog: expected the one with the id {marker.catalog}, "
            f"found {known.id}. Is TIDEMILL_CATALOG_URL, or url under [catalog], wrong, or is the catalog new or "
            f"empty? Open the right one, restore it, or choose another store; {_ADOPT}"
        )
    if known.clock < marker.clock:
        raise ForeignStore(
            f"the catalog is older than its block store {store.name}: expected one that has come to "
            f"{format_version(marker.clock)} at least, found one that has come to {format_version(known.clock)}. "
            "It was probably "
            f"restored from a copy; what runs wrote since is still in the store. Restore a newer copy; {_ADOPT}"
        )
    return marker


def _claim_unmarked_store(catalog: CatalogReader, store: BlockStore) -> StoreMarker:
    """Mark a store that is new, or that this catalog used before stores had markers."""
    check_not_rolled_back(catalog, store)
    if not _is_recognised(catalog, store):
        raise ForeignStore(
            f"nothing says that the block store {store.name} is this catalog's: expected the files that the catalog "
            "names, or an empty store without any, found neither. Is TIDEMILL_STORAGE_URL, or url under [storage], "
            f"right? Then restore the blocks, or the catalog that names them; {_ADOPT}"
        )
    known = catalog.read_identity()
    store.write_marker(StoreMarker(known.id, known.clock, catalog.read_time()))
    written = store.read_marker()  # another catalog may have been as fast
    return (
        _claim_unmarked_store(catalog, store)
        if written is None
        else _check_marker(store, written, catalog.read_identity())
    )


def _is_recognised(catalog: CatalogReader, store: BlockStore) -> bool:
    named = catalog.list_newest_files(SAMPLE)
    if named:
        return len(store.find_missing(named)) < len(named)
    runs = store.list_runs()[-SAMPLE:]
    return not runs or bool(catalog.find_attempts(list(store.list_attempts(runs))))
