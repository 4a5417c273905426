"""Insert batches: several small files are written as one block, since one block each would cost more than the rows."""

from collections.abc import Container, Hashable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow as pa

from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import InputFile
from tidemill.intake.loader import READERS, BlockFileWriter
from tidemill.intake.row_rules import extract_keys, validate_rows
from tidemill.model.change import Increment, Updates, Upsert
from tidemill.model.schema import Schema


@dataclass(frozen=True, slots=True)
class ArrowInsertBatch:
    """The validated rows of a file."""

    batches: tuple[pa.RecordBatch, ...]
    schema: pa.Schema
    digest: str
    keys: frozenset[Hashable]  # of rows that are merged by key

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


def read_batch(
    data: bytes, name: str, *, format: str, schema: Schema, updates: Updates, latest: bool = False
) -> ArrowInsertBatch:
    """Parse and validate a file; raises `BadInput` if a row is invalid or a key occurs twice.

    `latest`: the rows are ordered in time, so that the later of two upserts of a key counts.
    """
    source = InputFile.from_bytes(data, name, format)
    layout = DeltaLayout.from_schema(schema, updates)
    all_batches: list[pa.RecordBatch] = []
    row_by_key: dict[Hashable, int] = {}
    rows = 0
    names = updates.key if isinstance(updates, Upsert | Increment) else ()
    keeps_latest = latest and isinstance(updates, Upsert)
    with closing(READERS[source.format](source, layout)) as reader:
        for batch, _ in reader:
            valid = validate_rows(source, layout, batch, rows + 1)
            for row, key in enumerate(extract_keys(valid, names) if names else (), rows + 1):
                if key in row_by_key and not keeps_latest:
                    raise source.build_row_error(
                        row, f"has the same key as row {row_by_key[key]}; a file may hold each key once"
                    )
                row_by_key[key] = row
            all_batches.append(valid)
            rows += valid.num_rows
    batches = all_batches if len(row_by_key) == rows or not names else _keep_rows(all_batches, set(row_by_key.values()))
    return ArrowInsertBatch(tuple(batches), layout.arrow_schema, source.compute_digest(), frozenset(row_by_key))


def _keep_rows(batches: Iterable[pa.RecordBatch], rows: Container[int]) -> list[pa.RecordBatch]:
    """The rows with these numbers, counted from 1."""
    numbers = count(1)
    return [batch.filter(pa.array([next(numbers) in rows for _ in range(batch.num_rows)])) for batch in batches]


def write_batches(batches: Sequence[ArrowInsertBatch], directory: Path) -> None:
    """Write the rows of all batches as the files of one block."""
    writer = BlockFileWriter(directory, batches[0].schema)
    for part in batches:
        for batch in part.batches:
            writer.add_batch(batch)
    writer.flush_rows()
