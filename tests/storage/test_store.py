"""Guarantees of every store, on local disk and staged through a cache."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.storage.parquet_files import write_parquet

from tidemill.errors import BlockDamaged, RowsMissing, StorageError
from tidemill.model.block import DataFile
from tidemill.storage.store import FileBlockStore


def test_published_files_are_described_in_order_with_rows_and_bytes(store: FileBlockStore) -> None:
    directory = Path(store.stage_directory("runs/clicks/run-1"))
    second = write_parquet(directory / "part-1.parquet", 3)
    first = write_parquet(directory / "day=1" / "part-0.parquet", 5)
    assert store.publish_files("runs/clicks/run-1") == (
        DataFile("runs/clicks/run-1/day=1/part-0.parquet", 5, first.stat().st_size),
        DataFile("runs/clicks/run-1/part-1.parquet", 3, second.stat().st_size),
    )


def test_fewer_or_more_rows_than_were_written_are_not_published(store: FileBlockStore) -> None:
    write_parquet(Path(store.stage_directory("runs/b")) / "x.parquet", 4)
    for written in (0, 3, 5):
        with pytest.raises(RowsMissing, match=rf"{written} rows were written to .*/runs/b, but 4 rows in 1 files"):
            store.publish_files("runs/b", written)
    assert [file.rows for file in store.publish_files("runs/b", 4)] == [4]
    store.stage_directory("runs/empty")
    with pytest.raises(RowsMissing, match="but 0 rows in 0 files are found"):
        store.publish_files("runs/empty", 1)


def test_located_files_have_the_written_content(store: FileBlockStore) -> None:
    write_parquet(Path(store.stage_directory("runs/b")) / "x.parquet", 4)
    (file,) = store.publish_files("runs/b")
    located = store.locate_file(file.path)
    assert Path(located).is_absolute()
    assert pq.read_table(located).column("n").to_pylist() == [0, 1, 2, 3]


def test_markers_and_files_without_rows_are_not_published_and_deleted(store: FileBlockStore) -> None:
    directory = Path(store.stage_directory("runs/b"))
    write_parquet(directory / "part-0.parquet", 1)
    write_parquet(directory / "part-1.parquet", 0)
    write_parquet(directory / "_temporary" / "0" / "part-9.parquet", 7)
    for marker in ("_SUCCESS", ".part-0.parquet.crc", "._SUCCESS.crc"):
        (directory / marker).write_bytes(b"crc")
    assert [file.path for file in store.publish_files("runs/b")] == ["runs/b/part-0.parquet"]
    assert list(store.list_all_files()) == ["runs/b/part-0.parquet"]
    assert [path.name for path in directory.rglob("*")] == ["part-0.parquet"]


def test_an_empty_block_has_no_files_and_leaves_no_directory(store: FileBlockStore) -> None:
    empty, only_marker = (
        Path(store.stage_directory("runs/clicks/empty")),
        Path(store.stage_directory("runs/clicks/marker")),
    )
    (only_marker / "_SUCCESS").touch()
    assert store.publish_files("runs/clicks/empty") == ()
    assert store.publish_files("runs/clicks/marker") == ()
    assert not empty.exists()
    assert not only_marker.exists()


def test_other_files_are_not_published(store: FileBlockStore) -> None:
    (Path(store.stage_directory("runs/b")) / "notes.txt").write_text("not a block")
    with pytest.raises(
        BlockDamaged, match=r"runs/b/notes\.txt .* is not a complete Parquet file .* write Parquet only"
    ):
        store.publish_files("runs/b")


def test_a_missing_directory_is_not_an_empty_block(store: FileBlockStore) -> None:
    Path(store.stage_directory("runs/b")).rmdir()
    with pytest.raises(StorageError, match=r"runs/b disappeared before it was published; run it again"):
        store.publish_files("runs/b")


def test_an_unused_store_has_no_files(store: FileBlockStore) -> None:
    assert list(store.list_all_files()) == []


def test_unpublished_files_are_listed(store: FileBlockStore) -> None:
    write_parquet(Path(store.stage_directory("runs/a/run-1")) / "x.parquet", 1)
    store.publish_files("runs/a/run-1")
    write_parquet(Path(store.stage_directory("runs/a/run-2")) / "y.parquet", 1)
    assert sorted(store.list_all_files()) == ["runs/a/run-1/x.parquet", "runs/a/run-2/y.parquet"]


def test_delete_counts_existing_files_and_removes_empty_directories(store: FileBlockStore) -> None:
    directory = Path(store.stage_directory("runs/a/run-1"))
    remaining = write_parquet(Path(store.stage_directory("runs/a/run-2")) / "z.parquet", 1)
    for name in ("x", "y"):
        write_parquet(directory / f"{name}.parquet", 1)
    paths = [file.path for file in store.publish_files("runs/a/run-1")]
    assert store.delete_files([*paths, "runs/a/run-1/never.parquet", "runs/other/never.parquet"]) == 2
    assert store.delete_files(paths) == 0
    assert not directory.exists()
    assert remaining.exists()
    assert list(store.list_all_files()) == ["runs/a/run-2/z.parquet"]


def test_unpublished_files_can_be_deleted(store: FileBlockStore) -> None:
    write_parquet(Path(store.stage_directory("runs/a/crashed")) / "x.parquet", 1)
    assert store.delete_files(["runs/a/crashed/x.parquet"]) == 1
    assert list(store.list_all_files()) == []


def test_names_to_delete_are_no_patterns(store: FileBlockStore) -> None:
    directory = Path(store.stage_directory("runs/a"))
    for name in ("x*", "xy"):
        write_parquet(directory / name, 1)
    assert store.delete_files(["runs/a/x*"]) == 1
    assert list(store.list_all_files()) == ["runs/a/xy"]


def test_probing_leaves_no_files(store: FileBlockStore) -> None:
    root = store.probe_access()
    assert root
    assert list(store.list_all_files()) == []


@pytest.mark.parametrize("path", ["../x", "runs/a/../../x", "/etc/passwd", "runs/a//b", "", ".", "runs/a/./b", "a\0b"])
def test_paths_outside_of_the_root_are_rejected(store: FileBlockStore, path: str) -> None:
    for function in (store.stage_directory, store.publish_files, store.locate_file, lambda p: store.delete_files([p])):
        with pytest.raises(StorageError, match="rejected the path"):
            function(path)
    with pytest.raises(StorageError, match="rejected the path"):
        store.check_files([DataFile(path, 1, 1)])


@pytest.mark.parametrize("name", ["run*", "run?", "run[1]", "{a}", "a\\b"])
def test_directories_that_are_patterns_for_spark_are_rejected(store: FileBlockStore, name: str) -> None:
    with pytest.raises(StorageError, match=r"Spark reads .* as a pattern"):
        store.stage_directory(name)
