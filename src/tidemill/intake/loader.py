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
from tidemill.intake.block_files import Parts
from tidemill.intake.delta_layout import Layout
from tidemill.intake.input_file import Format, Source
from tidemill.intake.keys import Keys
from tidemill.intake.row_rules import ruled
from tidemill.model.block import Kind
from tidemill.model.change import Append, Increment, Updates
from tidemill.model.schema import Schema
from tidemill.ports.engine import Progress

Reader = Callable[[Source, Layout], Generator[tuple[pa.RecordBatch, float], None, None]]
"""Yields the rows in order, with the fraction of the file that has been read."""

READERS: Mapping[Format, Reader] = {
    Format.CSV: csv_file.read,
    Format.JSON_LINES: json_lines.read,
    Format.PARQUET: parquet_file.read,
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was read: how many rows, and the SHA-256 of the file's bytes."""

    rows: int
    digest: str


def load_file(
    path: Path,
    *,
    format: str | None,
    schema: Schema,
    updates: Updates,
    kind: Kind = Kind.DELTA,
    directory: Path,
    progress: Progress | None = None,
) -> Loaded:
    """Write the rows of a file into `directory` as a block of a channel with this schema and way of merging.

    Raises `BadInput`, and leaves nothing behind, if any row does not fit. No rows make no files.
    """
    source = Source.at(path, format)
    digest = source.digest()
    layout = Layout.of(schema, updates) if kind is Kind.DELTA else Layout.of(_content(schema, updates), Append())
    parts = Parts(directory, layout.arrow)
    try:
        rows = _copy(source, layout, Keys(updates), parts, partial(progress or _silent, f"reading {path.name}"))
        source.check_unchanged()
    except BadInput:
        parts.discard()
        source.check_unchanged()  # if it changed, that is what is wrong with it
        raise
    except BaseException:
        parts.discard()
        raise
    return Loaded(rows, digest)


def _content(schema: Schema, updates: Updates) -> Schema:
    """The columns of a whole content; what amounts are added to is never NULL in it."""
    added = updates.columns if isinstance(updates, Increment) else ()
    return Schema(tuple(replace(f, nullable=f.nullable and f.name not in added) for f in schema))


def _copy(source: Source, layout: Layout, keys: Keys, parts: Parts, progress: Callable[[float], None]) -> int:
    rows = 0
    with closing(READERS[source.format](source, layout)) as batches:
        for batch, fraction in batches:
            good = ruled(source, layout, batch, rows + 1)
            keys.add(good)
            parts.add(good)
            rows += good.num_rows
            progress(min(fraction, 1.0))
    parts.finish()
    keys.check(source, parts.written)
    progress(1.0)
    return rows


def _silent(_: str, __: float) -> None:
    pass
