"""From a file to the Parquet files of one block, whole or not at all."""

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
"""Yields the rows in order, with the fraction of the file that has been read."""

READERS: Mapping[Format, Reader] = {
    Format.CSV: csv_file.read_csv,
    Format.JSON_LINES: json_lines.read_json_lines,
    Format.PARQUET: parquet_file.read_parquet,
}


@dataclass(frozen=True, slots=True)
class FileLoadResult:
    """What was read: how many rows, and the SHA-256 of the file's bytes."""

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
    """Write the rows of a file into `directory` as a block of a channel with this schema and way of merging.

    Raises `BadInput`, and leaves nothing behind, if any row does not fit. No rows make no files.
    """
    source = InputFile.from_path(path, format)
    digest = source.compute_digest()
    layout = (
        DeltaLayout.from_schema(schema, updates)
        if kind is BlockKind.DELTA
        else DeltaLayout.from_schema(_build_content_schema(schema, updates), Append())
    )
    parts = BlockFileWriter(directory, layout.arrow_schema)
    try:
        rows = _copy_rows(
            source,
            layout,
            DuplicateKeyDetector(updates),
            parts,
            partial(progress or _ignore_progress, f"reading {path.name}"),
        )
        source.check_unchanged()
    except BadInput:
        parts.delete_files()
        source.check_unchanged()  # if it changed, that is what is wrong with it
        raise
    except BaseException:
        parts.delete_files()
        raise
    return FileLoadResult(rows, digest)


def _build_content_schema(schema: Schema, updates: Updates) -> Schema:
    """The columns of a whole content; what amounts are added to is never NULL in it."""
    added = updates.columns if isinstance(updates, Increment) else ()
    return Schema(tuple(replace(f, nullable=f.nullable and f.name not in added) for f in schema))


def _copy_rows(
    source: InputFile,
    layout: DeltaLayout,
    keys: DuplicateKeyDetector,
    parts: BlockFileWriter,
    progress: Callable[[float], None],
) -> int:
    rows = 0
    with closing(READERS[source.format](source, layout)) as batches:
        for batch, fraction in batches:
            good = validate_rows(source, layout, batch, rows + 1)
            keys.add_batch(good)
            parts.add_batch(good)
            rows += good.num_rows
            progress(min(fraction, 1.0))
    parts.flush_rows()
    keys.check_duplicates(source, parts.written)
    progress(1.0)
    return rows


def _ignore_progress(_: str, __: float) -> None:
    pass
