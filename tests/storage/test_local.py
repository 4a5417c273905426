"""Local disk: files are written in place and fsynced before they are published."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.storage.parquet_files import write_parquet
from tests.storage.stores import open_file_store

from tidemill.errors import StorageError
from tidemill.storage.store import FileBlockStore


@pytest.fixture
def fsynced_paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were fsynced, in order."""
    paths: list[str] = []
    real = os.fsync

    def fsync(number: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{number}"))  # noqa: PTH115
        real(number)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def test_files_are_staged_at_their_final_path(local_store: FileBlockStore, tmp_path: Path) -> None:
    directory = tmp_path / "my blocks 100%" / "runs" / "clicks" / "run-1"
    assert local_store.stage_directory("runs/clicks/run-1") == str(directory)
    assert directory.is_dir()
    assert local_store.locate_file("runs/clicks/run-1/x.parquet") == str(directory / "x.parquet")


def test_publishing_fsyncs_files_before_their_directories(
    local_store: FileBlockStore, tmp_path: Path, fsynced_paths: list[str]
) -> None:
    file = write_parquet(Path(local_store.stage_directory("runs/clicks/run-1")) / "x.parquet", 1)
    local_store.publish_files("runs/clicks/run-1")
    root = tmp_path / "my blocks 100%"
    runs = root / "runs"
    assert fsynced_paths == [str(p) for p in (file, runs / "clicks/run-1", runs / "clicks", runs, root, tmp_path)]


def test_a_full_disk_is_reported(local_store: FileBlockStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    directory = Path(local_store.stage_directory("runs/b"))
    write_parquet(directory / "x.parquet", 1)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError) as error:
        local_store.publish_files("runs/b")
    assert str(error.value) == (
        f"cannot write in {directory}: the disk is full; free some space or move the block store, then try again"
    )


def test_a_root_below_a_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = open_file_store(str(tmp_path / "file" / "blocks"))
    for function in (store.probe_access, lambda: store.stage_directory("runs/b")):
        with pytest.raises(StorageError, match=r"file/blocks.*: a part of the path is a file; remove that file"):
            function()


def test_a_root_that_is_a_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot use the block store .*file: a part of the path is a file"):
        open_file_store(str(tmp_path / "file")).probe_access()


def test_a_root_that_cannot_be_created_is_reported() -> None:
    with pytest.raises(StorageError, match=r"cannot use the block store /proc/blocks: it does not exist and cannot"):
        open_file_store("/proc/blocks").probe_access()


def test_a_denied_permission_is_reported(local_store: FileBlockStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", deny)
    with pytest.raises(StorageError, match="permission is denied; give the user who runs Tidemill write access"):
        local_store.stage_directory("runs/b")


def test_probe_creates_the_root_and_names_it(local_store: FileBlockStore, tmp_path: Path) -> None:
    assert local_store.probe_access() == str(tmp_path / "my blocks 100%")
    assert (tmp_path / "my blocks 100%").is_dir()
