"""What holds of files in every format."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.intake.inserting import Desk

from tidemill.errors import BadInput, StorageError
from tidemill.intake import FileLoadResult, csv_rows, load_file
from tidemill.model.block import BlockKind
from tidemill.model.change import Append, Increment
from tidemill.model.schema import Schema


def test_rows_and_digest_are_reported(desk: Desk) -> None:
    content = "a\n1\n2\n"
    loaded = desk.load(desk.file("a.csv", content), "a int")
    assert loaded == FileLoadResult(2, hashlib.sha256(content.encode()).hexdigest())


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.data"])
def test_the_format_is_told_by_the_name_or_the_caller(desk: Desk, name: str) -> None:
    given = "csv" if name == "a.data" else None
    assert desk.load(desk.file(name, "a\n1\n"), "a int", format=given).rows == 1


def test_the_callers_format_wins_over_the_name(desk: Desk) -> None:
    assert desk.load(desk.file("a.csv", '{"a": 1}'), "a int", format="JSON").rows == 1


@pytest.mark.parametrize("name", ["a.data", "a", "a.gz", "a.parquet.gz"])
def test_a_name_that_does_not_tell_the_format(desk: Desk, name: str) -> None:
    assert "cannot detect the format" in desk.complaint(name, "a\n1\n", "a int")


def test_an_unknown_format(desk: Desk) -> None:
    message = desk.refusal(desk.file("a.csv", "a\n1\n"), "a int", format="xlsx")
    assert "unknown format 'xlsx'" in message
    assert "expected one of csv, jsonl, ndjson, json, parquet" in message


def test_a_directory(desk: Desk) -> None:
    path = desk.folder / "dir.parquet"
    path.mkdir()
    assert "is a directory; insert one file at a time" in desk.refusal(path, "a int")


def test_a_missing_file(desk: Desk) -> None:
    assert "there is no file" in desk.refusal(desk.folder / "a.csv", "a int")


def test_a_pipe(desk: Desk) -> None:
    path = desk.folder / "a.csv"
    os.mkfifo(path)
    assert "is not a regular file" in desk.refusal(path, "a int")


def test_a_file_below_a_file(desk: Desk) -> None:
    path = desk.file("file", "") / "a.csv"
    assert "cannot read" in desk.refusal(path, "a int")


def test_a_file_that_may_not_be_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = desk.file("a.csv", "a\n1\n")
    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(BadInput, match=r"a\.csv: Permission denied; check the file and its permissions"):
        desk.load(path, "a int")


@pytest.mark.parametrize("grown", ["a\n1\n2\n", 'a\n1\n"2\n'], ids=["whole", "cut off"])
def test_a_file_that_grows_while_it_is_read(desk: Desk, grown: str) -> None:
    path = desk.file("a.csv", "a\n1\n")

    def grow(_: str, __: float) -> None:
        path.write_text(grown)

    with pytest.raises(BadInput, match="it changed while it was read; wait until it is complete"):
        load_file(
            path, format=None, schema=Schema.from_ddl("a int"), updates=Append(), directory=desk.out, progress=grow
        )
    assert list(desk.out.iterdir()) == []


def test_progress_grows_to_the_whole(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", 4096)
    path = desk.file("a.csv", "a\n" + "".join(f"{n}\n" for n in range(100_000)))
    seen: list[tuple[str, float]] = []
    load_file(
        path,
        format=None,
        schema=Schema.from_ddl("a int"),
        updates=Append(),
        directory=desk.out,
        progress=lambda *step: seen.append(step),
    )
    assert {what for what, _ in seen} == {"reading a.csv"}
    fractions = [fraction for _, fraction in seen]
    assert fractions == sorted(fractions)
    assert 0 < fractions[0] < 1
    assert fractions[-1] == 1.0


def test_stored_files_are_what_spark_reads_best(desk: Desk) -> None:
    desk.load(desk.file("a.csv", "a,t\n1,2024-01-31T00:00:00Z\n"), "a int not null, t timestamp")
    file = pq.ParquetFile(desk.out / "part-00000.parquet")
    assert file.schema_arrow == pa.schema([pa.field("a", pa.int32(), nullable=False), ("t", pa.timestamp("us", "UTC"))])
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.schema.column(1).physical_type == "INT64"


def test_a_directory_that_cannot_be_written(desk: Desk) -> None:
    path = desk.file("a.csv", "a\n1\n")
    desk.out.rmdir()
    with pytest.raises(StorageError, match=r"cannot write .*part-00000\.parquet"):
        desk.load(path, "a int")


def test_a_base_holds_each_key_once_and_deletes_nothing(desk: Desk) -> None:
    schema, updates = Schema.from_ddl("k int, n int"), Increment(("k",), ("n",))

    def load_base(content: str) -> FileLoadResult:
        path = desk.file("a.csv", content)
        return load_file(path, format=None, schema=schema, updates=updates, kind=BlockKind.BASE, directory=desk.out)

    with pytest.raises(BadInput, match="row 2 has the same key as row 1"):
        load_base("k,n\n1,2\n1,3\n")
    with pytest.raises(BadInput, match="row 1 has NULL in column 'n'"):
        load_base("k,n\n1,\n")
    with pytest.raises(BadInput, match="column _deleted is unknown"):
        load_base("k,n,_deleted\n1,2,true\n")
    assert load_base("k,n\n1,2\n2,3\n").rows == 2
