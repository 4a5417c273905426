"""Every kind of damage is detected and reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.storage.parquet_files import flip_byte, write_parquet

from tidemill.errors import BlockDamaged
from tidemill.model.block import DataFile
from tidemill.storage.store import FileBlockStore


@pytest.fixture
def published_file(local_store: FileBlockStore) -> DataFile:
    write_parquet(Path(local_store.stage_directory("runs/b")) / "x.parquet", 100)
    return local_store.publish_files("runs/b")[0]


def read_error(store: FileBlockStore, file: DataFile) -> str:
    with pytest.raises(BlockDamaged) as error:
        store.check_files([file])
    return str(error.value)


def test_valid_files_are_accepted(store: FileBlockStore) -> None:
    for name in ("x", "y"):
        write_parquet(Path(store.stage_directory("runs/b")) / f"{name}.parquet", 10)
    store.check_files(store.publish_files("runs/b"))


def test_a_missing_file_is_reported(local_store: FileBlockStore, published_file: DataFile) -> None:
    Path(local_store.locate_file(published_file.path)).unlink()
    message = read_error(local_store, published_file)
    assert "runs/b/x.parquet is damaged" in message
    assert f"expected 100 rows in {published_file.bytes} bytes, found nothing: the file is missing" in message
    assert "Restore the file from a backup" in message


def test_a_truncated_file_is_reported(local_store: FileBlockStore, published_file: DataFile) -> None:
    path = Path(local_store.locate_file(published_file.path))
    path.write_bytes(path.read_bytes()[:-10])
    assert f"expected 100 rows in {published_file.bytes} bytes, found {published_file.bytes - 10} bytes" in read_error(
        local_store, published_file
    )


def test_a_damaged_footer_is_reported(local_store: FileBlockStore, published_file: DataFile) -> None:
    flip_byte(Path(local_store.locate_file(published_file.path)), -1)
    assert "found content that cannot be read" in read_error(local_store, published_file)


def test_one_flipped_bit_in_the_data_fails_the_page_checksum(
    local_store: FileBlockStore, published_file: DataFile
) -> None:
    path = Path(local_store.locate_file(published_file.path))
    flip_byte(path, path.read_bytes().index(b"row 42"))
    assert "checksum" in read_error(local_store, published_file)


def test_another_number_of_rows_is_reported(local_store: FileBlockStore, published_file: DataFile) -> None:
    assert "expected 99 rows" in read_error(local_store, DataFile(published_file.path, 99, published_file.bytes))


def test_only_the_damaged_file_is_named(local_store: FileBlockStore, published_file: DataFile) -> None:
    write_parquet(Path(local_store.stage_directory("runs/c")) / "y.parquet", 1)
    valid = local_store.publish_files("runs/c")
    Path(local_store.locate_file(published_file.path)).unlink()
    with pytest.raises(BlockDamaged, match=r"runs/b/x\.parquet"):
        local_store.check_files([*valid, published_file])


def test_a_damaged_copy_of_a_valid_original_is_dropped(staged_store: FileBlockStore) -> None:
    copy = write_parquet(Path(staged_store.stage_directory("runs/b")) / "x.parquet", 10)
    original = copy.read_bytes()
    (file,) = staged_store.publish_files("runs/b")
    flip_byte(copy, copy.read_bytes().index(b"row 4"))
    staged_store.check_files([file])
    assert not copy.exists()
    assert Path(staged_store.locate_file(file.path)).read_bytes() == original


def test_a_damaged_original_is_detected_despite_a_valid_copy(staged_store: FileBlockStore, memory_url: str) -> None:
    write_parquet(Path(staged_store.stage_directory("runs/b")) / "x.parquet", 10)
    (file,) = staged_store.publish_files("runs/b")
    MemoryFileSystem().rm_file(f"{memory_url}/runs/b/x.parquet")
    assert "is missing" in read_error(staged_store, file)
