"""Object stores that Spark reads and writes directly."""

from __future__ import annotations

from pathlib import Path

from fsspec.implementations.memory import MemoryFileSystem
from tests.storage.parquet_files import write_parquet
from tests.storage.stores import open_file_store

from tidemill.model.block import DataFile


def test_spark_gets_urls_below_the_root(memory_url: str) -> None:
    store = open_file_store(memory_url, staged=False)
    assert store.stage_directory("runs/b/run-1") == f"{memory_url}/runs/b/run-1"
    assert store.locate_file("runs/b/run-1/x.parquet") == f"{memory_url}/runs/b/run-1/x.parquet"


def test_s3_urls_have_hadoops_scheme() -> None:
    store = open_file_store("s3://bucket/blocks/", staged=False, options={"anon": True})
    assert store.stage_directory("runs/b") == "s3a://bucket/blocks/runs/b"
    assert store.locate_file("runs/b/x.parquet") == "s3a://bucket/blocks/runs/b/x.parquet"


def test_files_written_by_spark_are_published_without_markers(memory_url: str, tmp_path: Path) -> None:
    fs = MemoryFileSystem()
    store = open_file_store(memory_url, staged=False)
    content = write_parquet(tmp_path / "x.parquet", 2).read_bytes()
    empty = write_parquet(tmp_path / "y.parquet", 0).read_bytes()
    for name, data in {"x.parquet": content, "y.parquet": empty, "_SUCCESS": b""}.items():
        fs.pipe_file(f"{store.stage_directory('runs/b')}/{name}", data)
    files = store.publish_files("runs/b")
    assert files == (DataFile("runs/b/x.parquet", 2, len(content)),)
    assert list(store.list_all_files()) == ["runs/b/x.parquet"]
    store.check_files(files)
    assert store.delete_files([file.path for file in files]) == 1


def test_a_directory_without_files_is_an_empty_block(memory_url: str) -> None:
    assert open_file_store(memory_url, staged=False).publish_files("runs/b") == ()
