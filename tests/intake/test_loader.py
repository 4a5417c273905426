"""Loading of files in every format."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.intake.file_loader import FileLoader

from tidemill.errors import BadInput, StorageError
from tidemill.intake import csv_file
from tidemill.intake.loader import load_file
from tidemill.model.block import BlockKind
from tidemill.model.change import Append, Increment
from tidemill.model.schema import Schema
from tidemill.ports.storage import LoadRequest, LoadResult


def test_rows_and_digest_are_reported(loader: FileLoader) -> None:
    content = "a\n1\n2\n"
    result = loader.load(loader.file("a.csv", content), "a int")
    assert result == LoadResult(2, hashlib.sha256(content.encode()).hexdigest())


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.data"])
def test_the_format_follows_from_the_name_or_the_caller(loader: FileLoader, name: str) -> None:
    format_name = "csv" if name == "a.data" else None
    assert loader.load(loader.file(name, "a\n1\n"), "a int", format=format_name).rows == 1


def test_the_callers_format_takes_precedence_over_the_name(loader: FileLoader) -> None:
    assert loader.load(loader.file("a.csv", '{"a": 1}'), "a int", format="JSON").rows == 1


@pytest.mark.parametrize("name", ["a.data", "a", "a.gz", "a.parquet.gz"])
def test_a_name_without_a_known_format_is_rejected(loader: FileLoader, name: str) -> None:
    assert "cannot detect the format" in loader.expect_error(name, "a\n1\n", "a int")


def test_an_unknown_format_is_rejected(loader: FileLoader) -> None:
    message = loader.expect_rejection(loader.file("a.csv", "a\n1\n"), "a int", format="xlsx")
    assert "unknown format 'xlsx'" in message
    assert "expected one of csv, jsonl, ndjson, json, parquet" in message


def test_a_directory_is_rejected(loader: FileLoader) -> None:
    path = loader.folder / "dir.parquet"
    path.mkdir()
    assert "is a directory; insert one file at a time" in loader.expect_rejection(path, "a int")


def test_a_missing_file_is_reported(loader: FileLoader) -> None:
    assert "there is no file" in loader.expect_rejection(loader.folder / "a.csv", "a int")


def test_a_pipe_is_rejected(loader: FileLoader) -> None:
    path = loader.folder / "a.csv"
    os.mkfifo(path)
    assert "is not a regular file" in loader.expect_rejection(path, "a int")


def test_a_path_below_a_file_is_reported(loader: FileLoader) -> None:
    path = loader.file("file", "") / "a.csv"
    assert "cannot read" in loader.expect_rejection(path, "a int")


def test_a_file_without_read_permission_is_reported(loader: FileLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = loader.file("a.csv", "a\n1\n")
    monkeypatch.setattr(Path, "open", deny)
    with pytest.raises(BadInput, match=r"a\.csv: Permission denied; check the file and its permissions"):
        loader.load(path, "a int")


@pytest.mark.parametrize("grown", ["a\n1\n2\n", 'a\n1\n"2\n'], ids=["complete", "truncated"])
def test_a_file_that_grows_while_it_is_read_is_rejected(loader: FileLoader, grown: str) -> None:
    path = loader.file("a.csv", "a\n1\n")

    def grow(_: str, __: float) -> None:
        path.write_text(grown)

    with pytest.raises(BadInput, match="it changed while it was read; wait until it is complete"):
        load_file(path, LoadRequest(Schema.from_ddl("a int"), Append(), loader.out, progress=grow))
    assert list(loader.out.iterdir()) == []


def test_progress_increases_to_one(loader: FileLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", 4096)
    path = loader.file("a.csv", "a\n" + "".join(f"{n}\n" for n in range(100_000)))
    steps: list[tuple[str, float]] = []

    def record_step(text: str, fraction: float) -> None:
        steps.append((text, fraction))

    load_file(path, LoadRequest(Schema.from_ddl("a int"), Append(), loader.out, progress=record_step))
    assert {text for text, _ in steps} == {"reading a.csv"}
    fractions = [fraction for _, fraction in steps]
    assert fractions == sorted(fractions)
    assert 0 < fractions[0] < 1
    assert fractions[-1] == 1.0


def test_stored_files_have_spark_friendly_types(loader: FileLoader) -> None:
    loader.load(loader.file("a.csv", "a,t\n1,2024-01-31T00:00:00Z\n"), "a int not null, t timestamp")
    file = pq.ParquetFile(loader.out / "part-00000.parquet")
    assert file.schema_arrow == pa.schema([pa.field("a", pa.int32(), nullable=False), ("t", pa.timestamp("us", "UTC"))])
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.schema.column(1).physical_type == "INT64"


def test_a_directory_that_cannot_be_written_is_reported(loader: FileLoader) -> None:
    path = loader.file("a.csv", "a\n1\n")
    loader.out.rmdir()
    with pytest.raises(StorageError, match=r"cannot write .*part-00000\.parquet"):
        loader.load(path, "a int")


def test_a_base_has_unique_keys_and_no_deletions(loader: FileLoader) -> None:
    schema, updates = Schema.from_ddl("k int, n int"), Increment(("k",), ("n",))

    def load_base(content: str) -> LoadResult:
        path = loader.file("a.csv", content)
        return load_file(path, LoadRequest(schema, updates, loader.out, BlockKind.BASE))

    with pytest.raises(BadInput, match="row 2 has the same key as row 1"):
        load_base("k,n\n1,2\n1,3\n")
    with pytest.raises(BadInput, match="row 1 has NULL in column 'n'"):
        load_base("k,n\n1,\n")
    with pytest.raises(BadInput, match="column _deleted is unknown"):
        load_base("k,n,_deleted\n1,2,true\n")
    assert load_base("k,n\n1,2\n2,3\n").rows == 2
