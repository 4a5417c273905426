"""Small files, several of which are written as one block: a block for each would cost more than its rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidemill.intake.keys import keys_of
from tidemill.intake.layout import Layout
from tidemill.intake.load import READERS
from tidemill.intake.parts import Parts
from tidemill.intake.rules import ruled
from tidemill.intake.source import Source
from tidemill.model.change import Increment, Updates, Upsert
from tidemill.model.schema import Schema


@dataclass(frozen=True, slots=True)
class Parcel:
    """The rows of a file, all of which fit the channel."""

    batches: tuple[pa.RecordBatch, ...]
    schema: pa.Schema
    digest: str
    keys: frozenset[Hashable]  # of what is merged by key

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


def read(data: bytes, name: str, *, format: str, schema: Schema, updates: Updates) -> Parcel:
    """Raises `BadInput` if any row does not fit, or a key is there twice."""
    source = Source.of(data, name, format)
    layout = Layout.of(schema, updates)
    batches: list[pa.RecordBatch] = []
    seen: dict[Hashable, int] = {}
    rows = 0
    names = updates.key if isinstance(updates, Upsert | Increment) else ()
    with closing(READERS[source.format](source, layout)) as found:
        for batch, _ in found:
            good = ruled(source, layout, batch, rows + 1)
            for row, key in enumerate(keys_of(good, names) if names else (), rows + 1):
                if seen.setdefault(key, row) != row:
                    raise source.bad_row(row, f"has the same key as row {seen[key]}; a file may hold each key once")
            batches.append(good)
            rows += good.num_rows
    return Parcel(tuple(batches), layout.arrow, source.digest(), frozenset(seen))


def pack(parcels: Sequence[Parcel], directory: Path) -> None:
    """Write the rows of all as the files of one block."""
    parts = Parts(directory, parcels[0].schema)
    for parcel in parcels:
        for batch in parcel.batches:
            parts.add(batch)
    parts.finish()
