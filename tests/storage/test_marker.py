"""The marker of a store, and its directory of runs, which is the only directory that Tidemill owns."""

from __future__ import annotations

from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.storage.parquet_files import write_parquet
from tests.storage.stores import open_file_store

from tidemill.errors import StorageError
from tidemill.model.store import StoreMarker
from tidemill.storage.store import MARKER_FILE, FileBlockStore

MARKER = StoreMarker("one", 17, 1.5)


def test_a_marker_is_written_and_read(store: FileBlockStore) -> None:
    assert store.read_marker() is None
    for marker in (MARKER, StoreMarker("two", 18, 1.5)):
        store.write_marker(marker)
        assert store.read_marker() == marker
    assert list(store.list_all_files()) == []


def test_a_direct_store_has_a_marker(memory_url: str) -> None:
    store = open_file_store(memory_url, staged=False)
    store.write_marker(MARKER)
    assert open_file_store(memory_url, staged=False).read_marker() == MARKER
    assert MemoryFileSystem().exists(f"{memory_url}/{MARKER_FILE}")


@pytest.mark.parametrize("text", ["", "{}", "[1]", "nonsense", '{"catalog": "x", "clock": null}'])
def test_a_damaged_marker_is_an_error(local_store: FileBlockStore, tmp_path: Path, text: str) -> None:
    local_store.write_marker(MARKER)
    (tmp_path / "my blocks 100%" / MARKER_FILE).write_text(text)
    with pytest.raises(StorageError, match=r"does not name the catalog .*restore the file .*tidemill adopt-store"):
        local_store.read_marker()


def test_a_marker_of_a_newer_tidemill_is_rejected(local_store: FileBlockStore) -> None:
    local_store.write_marker(StoreMarker("one", 17, 1.5, format=99))
    with pytest.raises(StorageError, match="newer Tidemill: it has format 99"):
        local_store.read_marker()


def test_writing_the_marker_leaves_no_other_file(local_store: FileBlockStore, tmp_path: Path) -> None:
    local_store.write_marker(MARKER)
    assert [p.name for p in (tmp_path / "my blocks 100%").iterdir()] == [MARKER_FILE]


def test_only_files_below_the_directory_of_runs_are_listed(local_store: FileBlockStore, tmp_path: Path) -> None:
    root = tmp_path / "my blocks 100%"
    write_parquet(Path(local_store.stage_directory("runs/3/30/1")) / "x.parquet", 1)
    for foreign in ("orders.csv", "src/x.parquet", "runs/notes/x.parquet", "runs/3/mine.csv"):
        (root / foreign).parent.mkdir(parents=True, exist_ok=True)
        (root / foreign).write_text("mine")
    assert local_store.list_runs() == [3]
    assert list(local_store.list_attempts([3, 4])) == ["runs/3/30"]
    assert local_store.list_directory("runs/3/30") == ["runs/3/30/1/x.parquet"]
    assert "orders.csv" not in set(local_store.list_all_files())


def test_runs_and_attempts_are_listed_by_number(store: FileBlockStore) -> None:
    assert store.list_runs() == []
    for directory in ("runs/2/7/1", "runs/10/5/1", "runs/10/12/1"):
        write_parquet(Path(store.stage_directory(directory)) / "x.parquet", 1)
        store.publish_files(directory)
    assert store.list_runs() == [2, 10]
    assert list(store.list_attempts(store.list_runs())) == ["runs/2/7", "runs/10/5", "runs/10/12"]
    assert store.list_directory("runs/10/12") == ["runs/10/12/1/x.parquet"]
    assert store.list_directory("runs/11/1") == []


def test_missing_files_are_found(store: FileBlockStore) -> None:
    write_parquet(Path(store.stage_directory("runs/1/1/1")) / "x.parquet", 1)
    store.publish_files("runs/1/1/1")
    missing = ["runs/1/1/1/gone.parquet", "runs/9/9/9/gone.parquet"]
    assert store.find_missing(["runs/1/1/1/x.parquet", *missing]) == set(missing)


def test_pruning_removes_empty_directories_below_the_runs(local_store: FileBlockStore, tmp_path: Path) -> None:
    root = tmp_path / "my blocks 100%"
    Path(local_store.stage_directory("runs/1/5/7/_temporary/0"))
    remaining = write_parquet(Path(local_store.stage_directory("runs/2/6/8")) / "x.parquet", 1)
    local_store.prune_directory("runs/1/5")
    local_store.prune_directory("runs/2/6")
    local_store.prune_directory("runs/3/7")
    assert not (root / "runs" / "1").exists()
    assert remaining.exists()
    assert local_store.delete_files(["runs/2/6/8/x.parquet"]) == 1
    assert [p.name for p in root.rglob("*")] == ["runs"]


def test_links_are_not_followed(local_store: FileBlockStore, tmp_path: Path) -> None:
    """The target of a link is not Tidemill's, for any position of the link."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "orders.csv").write_text("mine")
    (Path(local_store.stage_directory("runs/1/5")) / "link").symlink_to(tmp_path / "mine")
    assert local_store.list_directory("runs/1/5") == ["runs/1/5/link"]
    assert local_store.delete_files(local_store.list_directory("runs/1/5")) == 1
    assert (tmp_path / "mine" / "orders.csv").read_text() == "mine"


@pytest.mark.parametrize("path", ["orders.csv", "src/x.py", "runs", "runs/", "runs/../src/x.py", "Runs/1/x"])
def test_paths_outside_of_the_directory_of_runs_are_rejected(store: FileBlockStore, path: str) -> None:
    for function in (
        store.stage_directory,
        store.publish_files,
        store.locate_file,
        store.prune_directory,
        lambda p: store.delete_files([p]),
    ):
        with pytest.raises(StorageError, match="rejected the path"):
            function(path)
