"""The ownership of a store: without a marker, of another catalog, or ahead of its catalog."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.acceptance.mill import WORKFLOW, Mill, batch, open_plain_mill
from tests.catalog.driver import AT_ONCE

from tidemill.errors import StorageError, StoreMismatch
from tidemill.model.run import ClaimRequest, RunKind
from tidemill.model.store import StoreMarker
from tidemill.runtime.maintenance.store_ownership import adopt_store, advance_marker, check_store
from tidemill.runtime.maintenance.vacuum import ScanResult, VacuumService
from tidemill.storage.store import MARKER_FILE


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blocks"


def url_of(directory: Path, name: str = "catalog") -> str:
    return f"sqlite:///{directory / name}.db"


@pytest.fixture(name="filled")
def create_filled_store(sqlite_template: Path, tmp_path: Path, root: Path) -> Path:
    """A catalog and a store without a marker, as in old projects: two inserts and a run."""
    shutil.copy(sqlite_template, tmp_path / "catalog.db")
    with open_plain_mill(url_of(tmp_path), root) as mill:
        mill.catalog.workflows.apply(WORKFLOW)
        for number in range(2):
            mill.insert(batch(tmp_path, number))
        mill.run()
    return tmp_path


def marker_of(mill: Mill) -> StoreMarker:
    marker = mill.store.read_marker()
    assert marker is not None
    return marker


def files_in(root: Path) -> set[Path]:
    return set(root.rglob("*.parquet"))


# -- without a marker ---------------------------------------------------------------------------------------------


def test_an_empty_store_is_owned_by_its_first_catalog(tmp_path: Path, root: Path) -> None:
    with open_plain_mill(url_of(tmp_path), root) as mill:
        check_store(mill.catalog, mill.store)
        assert marker_of(mill).catalog == mill.catalog.read_identity().id
    with (
        open_plain_mill(url_of(tmp_path, "other"), root) as other,
        pytest.raises(StoreMismatch, match="another catalog"),
    ):
        check_store(other.catalog, other.store)


def test_an_unmarked_store_is_owned_by_the_catalog_that_references_its_files(filled: Path, root: Path) -> None:
    with open_plain_mill(url_of(filled), root) as mill:
        check_store(mill.catalog, mill.store)
        assert marker_of(mill) == check_store(mill.catalog, mill.store)


def test_an_unmarked_store_is_not_given_to_an_empty_catalog(filled: Path, root: Path) -> None:
    before = files_in(root)
    with open_plain_mill(url_of(filled, "empty"), root) as mill:
        with pytest.raises(StoreMismatch, match=r"or empty: its newest run is 0, .* 3 in all, up to run 3"):
            check_store(mill.catalog, mill.store)
        with pytest.raises(StoreMismatch):
            VacuumService(mill.executor, grace=AT_ONCE).scan_store()
        assert mill.store.read_marker() is None
    assert files_in(root) == before


def test_an_unmarked_store_is_not_given_to_a_catalog_of_other_files(filled: Path, root: Path, tmp_path: Path) -> None:
    with open_plain_mill(url_of(filled, "other"), tmp_path / "other blocks") as other:
        other.catalog.workflows.apply(WORKFLOW)
        for number in range(5):
            other.insert(batch(tmp_path, number))
    with open_plain_mill(url_of(filled, "other"), root) as mixed:
        with pytest.raises(StoreMismatch, match=r"nothing shows .*TIDEMILL_STORAGE_URL.*adopt-store"):
            check_store(mixed.catalog, mixed.store)
        assert mixed.store.read_marker() is None


def test_a_catalog_with_blocks_does_not_own_an_empty_store(filled: Path, tmp_path: Path) -> None:
    with (
        open_plain_mill(url_of(filled), tmp_path / "mistyped") as mill,
        pytest.raises(StoreMismatch, match="nothing shows"),
    ):
        check_store(mill.catalog, mill.store)
    assert not (tmp_path / "mistyped").exists()


def test_a_store_without_commits_is_recognised_by_its_attempts(tmp_path: Path, root: Path) -> None:
    with open_plain_mill(url_of(tmp_path), root) as mill:
        mill.catalog.workflows.apply(WORKFLOW)
        run = mill.catalog.runs.request(RunKind.COMPACTION, "events")
        claim = mill.catalog.runs.claim(run.id, ClaimRequest(), owner="dead", lease=30)
        mill.store.stage_directory(f"{claim.directory}/0")
        check_store(mill.catalog, mill.store)
        assert marker_of(mill).catalog == mill.catalog.read_identity().id
    with open_plain_mill(url_of(tmp_path, "other"), root) as other:
        other.catalog.workflows.apply(WORKFLOW)
        other.catalog.runs.request(RunKind.COMPACTION, "events")
        (root / MARKER_FILE).unlink()
        with pytest.raises(StoreMismatch, match="nothing shows"):
            check_store(other.catalog, other.store)


# -- an older, restored catalog -----------------------------------------------------------------------------------


def test_a_restored_older_catalog_is_rejected_and_deletes_nothing(filled: Path, root: Path) -> None:
    with open_plain_mill(url_of(filled), root) as mill:
        check_store(mill.catalog, mill.store)
    shutil.copy(filled / "catalog.db", filled / "backup.db")
    with open_plain_mill(url_of(filled), root) as mill:
        mill.insert(batch(filled, 2))
        advance_marker(mill.catalog, mill.store)
    newer = files_in(root)
    with open_plain_mill(url_of(filled, "backup"), root) as old:
        for function in (check_store, advance_marker):
            with pytest.raises(StoreMismatch, match=r"older than its block store .*at least \d{4}-.*Restore a newer"):
                function(old.catalog, old.store)
    assert files_in(root) == newer


def test_marked_files_are_not_removed_from_a_store_of_another_catalog(filled: Path, root: Path) -> None:
    """A server that still runs after another catalog adopted its store."""
    with open_plain_mill(url_of(filled), root) as mill, open_plain_mill(url_of(filled, "other"), root) as other:
        check_store(mill.catalog, mill.store)
        mill.compact("events")
        adopt_store(other.catalog, other.store)
        before = files_in(root)
        with pytest.raises(StoreMismatch, match="another catalog"):
            mill.collect()
        (problem,) = mill.run_maintenance("events").problems
        assert problem.startswith("files were not removed: the block store")
        assert files_in(root) == before
        assert mill.catalog.files.list_marked(), "it stays marked"


def test_a_marker_is_never_ahead_of_its_catalog(filled: Path, root: Path) -> None:
    with open_plain_mill(url_of(filled), root) as mill:
        created = check_store(mill.catalog, mill.store).created
        for number in range(2, 4):
            mill.insert(batch(filled, number))
            advance_marker(mill.catalog, mill.store)
            assert marker_of(mill).clock == mill.catalog.read_identity().clock
        assert marker_of(mill).created == created


# -- adopting -----------------------------------------------------------------------------------------------------


def test_adopting_a_store_deletes_nothing(filled: Path, root: Path) -> None:
    with open_plain_mill(url_of(filled), root) as mill:
        first = check_store(mill.catalog, mill.store)
    before = files_in(root)
    with open_plain_mill(url_of(filled, "other"), root) as other:
        assert adopt_store(other.catalog, other.store) == first
        check_store(other.catalog, other.store)
        (event,) = other.catalog.events.list()
        assert (event.kind, event.detail) == ("store.adopted", {"before": first.catalog})
        other.catalog.workflows.apply(WORKFLOW)
        for number in range(2):
            other.insert(batch(filled, number))
        mine = files_in(root) - before
        vacuum = VacuumService(other.executor, grace=AT_ONCE)
        assert vacuum.scan_store() == ScanResult(attempts=5, marked=0, unknown=3)
        vacuum.collect_garbage()
        other.store.stage_directory("runs/4/1")
        with pytest.raises(StoreMismatch, match="its newest run is 2, .* up to run 4"):
            vacuum.scan_store()  # the newest inherited run was the third
    assert files_in(root) >= before | mine


def test_a_store_with_a_damaged_marker_can_be_adopted(filled: Path, root: Path) -> None:
    (root / MARKER_FILE).write_text("")
    with open_plain_mill(url_of(filled), root) as mill:
        with pytest.raises(StoreMismatch, match="does not name the catalog"):
            check_store(mill.catalog, mill.store)
        assert adopt_store(mill.catalog, mill.store) is None
        check_store(mill.catalog, mill.store)


def test_a_store_of_a_newer_tidemill_is_not_adopted(filled: Path, root: Path) -> None:
    with open_plain_mill(url_of(filled), root) as mill:
        mill.store.write_marker(StoreMarker("other", 1, 1.0, format=99))
        with pytest.raises(StorageError, match="newer Tidemill"):
            adopt_store(mill.catalog, mill.store)
