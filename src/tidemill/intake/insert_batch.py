"""Small files, several of which are written as one block: a block for each would cost more than its rows."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow as pa

from tidemill.intake.block_files import BlockFileWriter
from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import InputFile
from tidemill.intake.keys import extract_keys
from tidemill.intake.loader import READERS
from tidemill.intake.row_rules import validate_rows
from tidemill.model.change import Increment, Updates, Upsert
from tidemill.model.schema import Schema


@dataclass(frozen=True, slots=True)
class ArrowInsertBatch:
    """The rows of a file, all of which fit the channel."""

    batches: tuple[pa.RecordBatch, ...]
    schema: pa.Schema
    digest: str
    keys: frozenset[Hashable]  # of what is merged by key

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


def read_batch(
    data: bytes, name: str, *, format: str, schema: Schema, updates: Updates, latest: bool = False
) -> ArrowInsertBatch:
    """Raises `BadInput` if any row does not fit, or a key is there twice.

    `latest`: the rows came one after the other, so that of two upserts of a key the later one is meant.
    """
    source = InputFile.from_bytes(data, name, format)
    layout = DeltaLayout.from_schema(schema, updates)
    batches: list[pa.RecordBatch] = []
    seen: dict[Hashable, int] = {}
    rows = 0
    names = updates.key if isinstance(updates, Upsert | Increment) else ()
    replaces = latest and isinstance(updates, Upsert)
    with closing(READERS[source.format](source, layout)) as found:
        for batch, _ in found:
            good = validate_rows(source, layout, batch, rows + 1)
            for row, key in enumerate(extract_keys(good, names) if names else (), rows + 1):
                if key in seen and not replaces:
                    raise source.build_row_error(
                        row, f"has the same key as row {seen[key]}; a file may hold each key once"
                    )
                seen[key] = row
            batches.append(good)
            rows += good.num_rows
    kept = batches if len(seen) == rows or not names else _keep_rows(batches, set(seen.values()))
    return ArrowInsertBatch(tuple(kept), layout.arrow_schema, source.compute_digest(), frozenset(seen))


def _keep_rows(batches: Iterable[pa.RecordBatch], rows: Container[int]) -> list[pa.RecordBatch]:
    """Of the rows, counted from 1, these."""
    numbers = count(1)
    return [batch.filter(pa.array([next(numbers) in rows for _ in range(batch.num_rows)])) for batch in batches]


def write_batches(parcels: Sequence[ArrowInsertBatch], directory: Path) -> None:
    """Write the rows of all as the files of one block."""
    parts = BlockFileWriter(directory, parcels[0].schema)
    for parcel in parcels:
        for batch in parcel.batches:
            parts.add_batch(batch)
    parts.flush_rows()
