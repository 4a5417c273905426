"""Object stores with a local cache."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.storage.parquet_files import write_parquet
from tests.storage.stores import open_file_store

from tidemill.errors import BlockDamaged, StorageError
from tidemill.model.block import DataFile
from tidemill.storage.staged import StagedBlockStore
from tidemill.storage.store import FileBlockStore


class FullStore(MemoryFileSystem):  # type: ignore[misc]
    """An object store that is full."""

    cachable = False

    def put_file(self, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def pipe_file(self, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


class ShortStore(MemoryFileSystem):  # type: ignore[misc]
    """Loses the last byte of each upload and download."""

    cachable = False

    def put_file(self, lpath: str, rpath: str, **_: object) -> None:
        super().pipe_file(rpath, Path(lpath).read_bytes()[:-1])

    def get_file(self, rpath: str, lpath: str, **_: object) -> None:
        Path(lpath).write_bytes(self.cat_file(rpath)[:-1])


class NoCredentials(Exception):
    """Like botocore's exception, which is no OSError."""


class ClosedStore(MemoryFileSystem):  # type: ignore[misc]
    cachable = False

    def pipe_file(self, *_: object, **__: object) -> None:
        raise NoCredentials("unable to locate credentials")


def build_store(fs: MemoryFileSystem, url: str, cache: Path) -> StagedBlockStore:
    return StagedBlockStore(fs, "/" + url.removeprefix("memory://"), url, cache)


def publish_file(store: FileBlockStore, rows: int = 3) -> DataFile:
    write_parquet(Path(store.stage_directory("runs/b")) / "x.parquet", rows)
    return store.publish_files("runs/b")[0]


def test_publishing_uploads_and_keeps_the_local_copy(staged_store: FileBlockStore, memory_url: str) -> None:
    local = Path(staged_store.stage_directory("runs/b")) / "x.parquet"
    file = publish_file(staged_store)
    assert MemoryFileSystem().cat_file(f"{memory_url}/runs/b/x.parquet") == local.read_bytes()
    assert staged_store.locate_file(file.path) == str(local)


def test_another_machine_downloads_a_file_once(
    staged_store: FileBlockStore, memory_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = publish_file(staged_store)
    other_store = open_file_store(memory_url, cache=tmp_path / "other cache")
    located = Path(other_store.locate_file(file.path))
    assert located.is_relative_to(tmp_path / "other cache")
    assert located.read_bytes() == Path(staged_store.locate_file(file.path)).read_bytes()
    monkeypatch.setattr(MemoryFileSystem, "get_file", None)
    assert other_store.locate_file(file.path) == str(located)


def test_a_missing_original_is_reported_as_damage(staged_store: FileBlockStore) -> None:
    with pytest.raises(BlockDamaged, match=r"runs/b/gone\.parquet is missing\. Restore it from a backup"):
        staged_store.locate_file("runs/b/gone.parquet")


def test_deleting_drops_the_cached_copy(staged_store: FileBlockStore, memory_url: str) -> None:
    file = publish_file(staged_store)
    copy = Path(staged_store.locate_file(file.path))
    assert staged_store.delete_files([file.path]) == 1
    assert not copy.exists()
    assert not MemoryFileSystem().exists(f"{memory_url}/runs/b/x.parquet")


def test_copies_of_files_that_another_machine_deleted_are_listed(
    staged_store: FileBlockStore, memory_url: str, tmp_path: Path
) -> None:
    file = publish_file(staged_store)
    open_file_store(memory_url, cache=tmp_path / "other").delete_files([file.path])
    assert list(staged_store.list_all_files()) == [file.path]
    assert staged_store.delete_files([file.path]) == 1
    assert list(staged_store.list_all_files()) == []


def test_two_stores_share_a_cache_without_mixing(memory_url: str, tmp_path: Path) -> None:
    first, second = (open_file_store(f"{memory_url}/{n}", cache=tmp_path) for n in (1, 2))
    one, two = publish_file(first, rows=1), publish_file(second, rows=2)
    assert one.path == two.path
    assert first.locate_file(one.path) != second.locate_file(two.path)


def test_a_full_object_store_is_reported(memory_url: str, tmp_path: Path) -> None:
    store = build_store(FullStore(), memory_url, tmp_path)
    with pytest.raises(StorageError, match=rf"cannot upload {memory_url}/runs/b/x\.parquet: the disk is full"):
        publish_file(store)
    with pytest.raises(StorageError, match=rf"cannot use the block store {memory_url}: the disk is full"):
        store.probe_access()


def test_an_incomplete_upload_is_reported(memory_url: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"runs/b/x\.parquet has \d+ bytes after an upload of \d+; check the object"):
        publish_file(build_store(ShortStore(), memory_url, tmp_path))


def test_an_incomplete_download_leaves_no_copy(staged_store: FileBlockStore, memory_url: str, tmp_path: Path) -> None:
    file = publish_file(staged_store)
    cache = tmp_path / "other"
    with pytest.raises(StorageError, match=r"ended after \d+ of \d+ bytes; try again"):
        build_store(ShortStore(), memory_url, cache).locate_file(file.path)
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_other_exceptions_of_the_client_are_translated(memory_url: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="unable to locate credentials; check that the block store can be reached"):
        build_store(ClosedStore(), memory_url, tmp_path).probe_access()


def test_a_cache_that_cannot_be_written_is_reported(memory_url: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="a part of the path is a file"):
        open_file_store(memory_url, cache=tmp_path / "file").probe_access()
