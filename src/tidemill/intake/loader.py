"""Loading of a file into the Parquet files of one block, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from tidemill.errors import BadInput
from tidemill.intake import csv_file, json_lines, parquet_file
from tidemill.intake.block_files import BlockFileWriter
from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import Format, InputFile
from tidemill.intake.keys import DuplicateKeyDetector
from tidemill.intake.row_rules import validate_rows
from tidemill.model.block import BlockKind
from tidemill.model.change import Append, Increment, Updates
from tidemill.model.schema import Schema
from tidemill.ports.engine import Progress

Reader = Callable[[InputFile, DeltaLayout], Generator[tuple[pa.RecordBatch, float], None, None]]
"""Yields the rows in order, each batch with the fraction of the file read so far."""

READERS: Mapping[Format, Reader] = {
    Format.CSV: csv_file.read_csv,
    Format.JSON_LINES: json_lines.read_json_lines,
    Format.PARQUET: parquet_file.read_parquet,
}


@dataclass(frozen=True, slots=True)
class FileLoadResult:
    """The number of rows read, and the SHA-256 of the file's bytes."""

    rows: int
    digest: str


def load_file(
    path: Path,
    *,
    format: str | None,
    schema: Schema,
    updates: Updates,
    kind: BlockKind = BlockKind.DELTA,
    directory: Path,
    progress: Progress | None = None,
) -> FileLoadResult:
    """Write the rows of a file into `directory` as a block of a channel with this schema and merge kind.

    Raises `BadInput`, and leaves no files, if any row is invalid. Without rows no file is written.
    """
    source = InputFile.from_path(path, format)
    digest = source.compute_digest()
    layout = (
        DeltaLayout.from_schema(schema, updates)
        if kind is BlockKind.DELTA
        else DeltaLayout.from_schema(_build_content_schema(schema, updates), Append())
    )
    writer = BlockFileWriter(directory, layout.arrow_schema)
    try:
        rows = _copy_rows(
            source,
            layout,
            DuplicateKeyDetector(updates),
            writer,
            partial(progress or _ignore_progress, f"reading {path.name}"),
        )
        source.check_unchanged()
    except BadInput:
        writer.delete_files()
        source.check_unchanged()  # a change of the file is the more useful error
        raise
    except BaseException:
        writer.delete_files()
        raise
    return FileLoadResult(rows, digest)


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
    rows = 0
    with closing(READERS[source.format](source, layout)) as batches:
        for batch, fraction in batches:
            valid = validate_rows(source, layout, batch, rows + 1)
            keys.add_batch(valid)
            writer.add_batch(valid)
            rows += valid.num_rows
            progress(min(fraction, 1.0))
    writer.flush_rows()
    keys.check_duplicates(source, writer.paths)
    progress(1.0)
    return rows


def _ignore_progress(_: str, __: float) -> None:
    pass
