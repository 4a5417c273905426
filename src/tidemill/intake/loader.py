"""Loading of a file into the Parquet files of one block, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.errors import BadInput, StorageError
from tidemill.intake import csv_file, json_lines, parquet_file
from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import Format, InputFile
from tidemill.intake.row_rules import DuplicateKeyDetector, validate_rows
from tidemill.model.block import BlockKind
from tidemill.model.change import Append, Increment, Updates
from tidemill.model.schema import Schema
from tidemill.ports.storage import LoadRequest, LoadResult

Reader = Callable[[InputFile, DeltaLayout], Generator[tuple[pa.RecordBatch, float], None, None]]
"""Yields the rows in order, each batch with the fraction of the file read so far."""

_FILE_ROWS, _FILE_BYTES = 1_000_000, 128 << 20  # of one Parquet file

READERS: Mapping[Format, Reader] = {
    Format.CSV: csv_file.read_csv,
    Format.JSON_LINES: json_lines.read_json_lines,
    Format.PARQUET: parquet_file.read_parquet,
}


def load_file(path: Path, request: LoadRequest, max_bytes: int | None = None) -> LoadResult:
    """Write the rows of a file as a block.

    Raises `BadInput`, and leaves no files, if any row is invalid, or if the decoded rows take more than `max_bytes`.
    Without rows no file is written.
    """
    source, updates = InputFile.from_path(path, request.format, max_bytes), request.updates
    digest = source.compute_digest()
    layout = DeltaLayout.from_schema(request.schema, updates)
    if request.kind is BlockKind.BASE:
        layout = DeltaLayout.from_schema(_build_content_schema(request.schema, updates), Append())
    writer = BlockFileWriter(request.directory, layout.arrow_schema)
    progress = partial(request.progress or (lambda _name, _fraction: None), f"reading {path.name}")
    try:
        rows = _copy_rows(source, layout, DuplicateKeyDetector(updates), writer, progress)
        source.check_unchanged()
    except BadInput:
        writer.delete_files()
        source.check_unchanged()  # a change of the file is the more useful error
        raise
    except BaseException:
        writer.delete_files()
        raise
    return LoadResult(rows, digest)


def _build_content_schema(schema: Schema, updates: Updates) -> Schema:
    """The columns of a full content; the increment columns are never NULL in it."""
    increment_columns = updates.columns if isinstance(updates, Increment) else ()
    return Schema(tuple(replace(f, nullable=f.nullable and f.name not in increment_columns) for f in schema))


def _copy_rows(
    source: InputFile,
    layout: DeltaLayout,
    keys: DuplicateKeyDetector,
    writer: BlockFileWriter,
    progress: Callable[[float], None],
) -> int:
    rows, done = 0, 0.0
    with closing(READERS[source.format](source, layout)) as batches:
        for batch, fraction in batches:
            valid = validate_rows(source, layout, batch, rows + 1)
            keys.add_batch(valid)
            writer.add_batch(valid)
            rows += valid.num_rows
            done = min(max(done, fraction), 1.0)  # a thread reads ahead: a measured position may be behind the last
            progress(done)
    writer.flush_rows()
    keys.check_duplicates(source, writer.paths)
    progress(1.0)
    return rows


class BlockFileWriter:
    """Writes few large files, each buffered in memory until it is full; `paths` is in the order of the rows."""

    def __init__(self, directory: Path, schema: pa.Schema, *, rows: int = _FILE_ROWS, bytes: int = _FILE_BYTES) -> None:
        self.paths: list[Path] = []
        self._directory = directory
        self._schema = schema
        self._max_rows = rows
        self._max_bytes = bytes
        self._buffer: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0  # of the buffered batches

    def add_batch(self, batch: pa.RecordBatch) -> None:
        self._buffer.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= self._max_rows or self._bytes >= self._max_bytes:
            self.flush_rows()

    def flush_rows(self) -> None:
        """Write the buffered rows; without rows no file is written."""
        if self._rows:
            path = self._directory / f"part-{len(self.paths):05}.parquet"
            self.paths.append(path)
            _write_table(pa.Table.from_batches(self._buffer, self._schema), path)
        self._buffer = []
        self._rows = self._bytes = 0

    def delete_files(self) -> None:
        for path in self.paths:
            path.unlink(missing_ok=True)


def _write_table(table: pa.Table, path: Path) -> None:
    try:
        pq.write_table(table, path, compression="zstd", write_page_checksum=True, store_schema=False)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; check that the directory is writable and has space"
        ) from error
