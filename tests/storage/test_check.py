"""Damage is found and named, whatever its kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.storage.parquet_files import flip_byte, write_parquet

from tidemill.errors import BlockDamaged
from tidemill.model.block import DataFile
from tidemill.storage import FileBlockStore


@pytest.fixture
def published(local_store: FileBlockStore) -> DataFile:
    write_parquet(Path(local_store.stage_directory("runs/b")) / "x.parquet", 100)
    return local_store.publish_files("runs/b")[0]


def damage(store: FileBlockStore, file: DataFile) -> str:
    with pytest.raises(BlockDamaged) as caught:
        store.check_files([file])
    return str(caught.value)


def test_sound_files_pass(store: FileBlockStore) -> None:
    for name in ("x", "y"):
        write_parquet(Path(store.stage_directory("runs/b")) / f"{name}.parquet", 10)
    store.check_files(store.publish_files("runs/b"))


def test_a_missing_file(local_store: FileBlockStore, published: DataFile) -> None:
    Path(local_store.locate_file(published.path)).unlink()
    message = damage(local_store, published)
    assert "runs/b/x.parquet is damaged" in message
    assert f"expected 100 rows in {published.bytes} bytes, found nothing: the file is missing" in message
    assert "Restore the file from a backup" in message


def test_a_truncated_file(local_store: FileBlockStore, published: DataFile) -> None:
    path = Path(local_store.locate_file(published.path))
    path.write_bytes(path.read_bytes()[:-10])
    assert f"expected 100 rows in {published.bytes} bytes, found {published.bytes - 10} bytes" in damage(
        local_store, published
    )


def test_a_damaged_footer(local_store: FileBlockStore, published: DataFile) -> None:
    flip_byte(Path(local_store.locate_file(published.path)), -1)
    assert "found content that cannot be read" in damage(local_store, published)


def test_one_flipped_bit_in_the_data_fails_the_page_checksum(local_store: FileBlockStore, published: DataFile) -> None:
    path = Path(local_store.locate_file(published.path))
    flip_byte(path, path.read_bytes().index(b"row 42"))
    assert "checksum" in damage(local_store, published)


def test_another_number_of_rows(local_store: FileBlockStore, published: DataFile) -> None:
    assert "expected 99 rows" in damage(local_store, DataFile(published.path, 99, published.bytes))


def test_only_the_damaged_file_is_named(local_store: FileBlockStore, published: DataFile) -> None:
    write_parquet(Path(local_store.stage_directory("runs/c")) / "y.parquet", 1)
    sound = local_store.publish_files("runs/c")
    Path(local_store.locate_file(published.path)).unlink()
    with pytest.raises(BlockDamaged, match=r"runs/b/x\.parquet"):
        local_store.check_files([*sound, published])


def test_a_damaged_copy_is_dropped_when_the_original_is_sound(staged_store: FileBlockStore) -> None:
    copy = write_parquet(Path(staged_store.stage_directory("runs/b")) / "x.parquet", 10)
    original = copy.read_bytes()
    (file,) = staged_store.publish_files("runs/b")
    flip_byte(copy, copy.read_bytes().index(b"row 4"))
    staged_store.check_files([file])
    assert not copy.exists()
    assert Path(staged_store.locate_file(file.path)).read_bytes() == original


def test_a_damaged_original_is_found_though_the_copy_is_sound(staged_store: FileBlockStore, memory_url: str) -> None:
    write_parquet(Path(staged_store.stage_directory("runs/b")) / "x.parquet", 10)
    (file,) = staged_store.publish_files("runs/b")
    MemoryFileSystem().rm_file(f"{memory_url}/runs/b/x.parquet")
    assert "is missing" in damage(staged_store, file)
