"""The marker of a store, and what of a store's root is Tidemill's: the directory of runs, and nothing beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.storage.parquet_files import write_parquet
from tests.storage.stores import opened

from tidemill.errors import StorageError
from tidemill.model.store import StoreMarker
from tidemill.storage import FileBlockStore
from tidemill.storage.store import MARKER_FILE

WRITTEN = StoreMarker("one", 17, 1.5)


def test_a_store_gives_back_its_marker(store: FileBlockStore) -> None:
    assert store.read_marker() is None
    for marker in (WRITTEN, StoreMarker("two", 18, 1.5)):
        store.write_marker(marker)
        assert store.read_marker() == marker
    assert list(store.list_all_files()) == []


def test_a_store_that_spark_reaches_itself_has_a_marker_too(memory_url: str) -> None:
    store = opened(memory_url, staged=False)
    store.write_marker(WRITTEN)
    assert opened(memory_url, staged=False).read_marker() == WRITTEN
    assert MemoryFileSystem().exists(f"{memory_url}/{MARKER_FILE}")


@pytest.mark.parametrize("text", ["", "{}", "[1]", "nonsense", '{"catalog": "x", "clock": null}'])
def test_a_damaged_marker_is_an_error(local_store: FileBlockStore, tmp_path: Path, text: str) -> None:
    local_store.write_marker(WRITTEN)
    (tmp_path / "my blocks 100%" / MARKER_FILE).write_text(text)
    with pytest.raises(StorageError, match=r"does not name the catalog .*restore the file .*tidemill adopt-store"):
        local_store.read_marker()


def test_a_marker_of_a_newer_tidemill_is_refused(local_store: FileBlockStore) -> None:
    local_store.write_marker(StoreMarker("one", 17, 1.5, format=99))
    with pytest.raises(StorageError, match="newer Tidemill: it has format 99"):
        local_store.read_marker()


def test_writing_the_marker_leaves_nothing_beside_it(local_store: FileBlockStore, tmp_path: Path) -> None:
    local_store.write_marker(WRITTEN)
    assert [p.name for p in (tmp_path / "my blocks 100%").iterdir()] == [MARKER_FILE]


def test_only_what_lies_below_the_directory_of_runs_is_listed(local_store: FileBlockStore, tmp_path: Path) -> None:
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
    gone = ["runs/1/1/1/gone.parquet", "runs/9/9/9/gone.parquet"]
    assert store.find_missing(["runs/1/1/1/x.parquet", *gone]) == set(gone)


def test_pruning_takes_empty_directories_and_stops_at_the_runs(local_store: FileBlockStore, tmp_path: Path) -> None:
    root = tmp_path / "my blocks 100%"
    Path(local_store.stage_directory("runs/1/5/7/_temporary/0"))
    kept = write_parquet(Path(local_store.stage_directory("runs/2/6/8")) / "x.parquet", 1)
    local_store.prune_directory("runs/1/5")
    local_store.prune_directory("runs/2/6")
    local_store.prune_directory("runs/3/7")
    assert not (root / "runs" / "1").exists()
    assert kept.exists()
    assert local_store.delete_files(["runs/2/6/8/x.parquet"]) == 1
    assert [p.name for p in root.rglob("*")] == ["runs"]


def test_links_are_not_followed(local_store: FileBlockStore, tmp_path: Path) -> None:
    """A directory that a link leads to is not Tidemill's, wherever the link stands."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "orders.csv").write_text("mine")
    (Path(local_store.stage_directory("runs/1/5")) / "link").symlink_to(tmp_path / "mine")
    assert local_store.list_directory("runs/1/5") == ["runs/1/5/link"]
    assert local_store.delete_files(local_store.list_directory("runs/1/5")) == 1
    assert (tmp_path / "mine" / "orders.csv").read_text() == "mine"


@pytest.mark.parametrize("path", ["orders.csv", "src/x.py", "runs", "runs/", "runs/../src/x.py", "Runs/1/x"])
def test_paths_beside_the_directory_of_runs_are_refused(store: FileBlockStore, path: str) -> None:
    for use in (
        store.stage_directory,
        store.publish_files,
        store.locate_file,
        store.prune_directory,
        lambda p: store.delete_files([p]),
    ):
        with pytest.raises(StorageError, match="rejected the path"):
            use(path)
