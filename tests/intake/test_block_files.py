"""The Parquet files that a load writes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.intake.loader import BlockFileWriter

SCHEMA = pa.schema([("n", pa.int64())])


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


def test_small_batches_share_a_file(tmp_path: Path) -> None:
    parts = BlockFileWriter(tmp_path, SCHEMA)
    for n in range(10):
        parts.add_batch(batch(n))
    parts.flush_rows()
    assert [path.name for path in parts.paths] == ["part-00000.parquet"]
    assert pq.read_metadata(parts.paths[0]).num_row_groups == 1
    assert pq.read_table(parts.paths[0])["n"].to_pylist() == list(range(10))


def test_a_full_file_is_followed_by_the_next(tmp_path: Path) -> None:
    for limits in ({"rows": 4}, {"bytes": 32}):
        parts = BlockFileWriter(tmp_path, SCHEMA, **limits)
        for n in range(0, 10, 2):
            parts.add_batch(batch(n, n + 1))
        parts.flush_rows()
        assert [pq.read_table(path)["n"].to_pylist() for path in parts.paths] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_no_rows_write_no_file(tmp_path: Path) -> None:
    parts = BlockFileWriter(tmp_path, SCHEMA)
    parts.add_batch(batch())
    parts.flush_rows()
    assert list(tmp_path.iterdir()) == []


def test_deleting_removes_only_the_written_files(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    parts = BlockFileWriter(tmp_path, SCHEMA, rows=1)
    parts.add_batch(batch(1))
    parts.add_batch(batch(2))
    parts.delete_files()
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
