"""Parquet: columns by name, in types that widen to the channel's without loss.

A time without a zone is read as UTC where the channel has instants.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from tidemill.encoding.arrow_types import arrow_type
from tidemill.intake.cell_columns import Column
from tidemill.intake.delta_layout import Layout
from tidemill.intake.input_file import Source
from tidemill.intake.type_widening import widens
from tidemill.intake.value_ranges import sound
from tidemill.model.schema import Field

_BATCH_ROWS = 65_536


def read(source: Source, layout: Layout) -> Generator[tuple[pa.RecordBatch, float], None, None]:
    with _intact(source), _opened(source) as file:
        found = file.schema_arrow
        layout.check_names(source, found.names)
        columns = [_column(source, layout.schema.field(f.name), f.type) for f in found]
        first = 1
        for cells in file.iter_batches(batch_size=_BATCH_ROWS):
            arrays = {c.field.name: c.converted(source, cells.column(i), first) for i, c in enumerate(columns)}
            first += cells.num_rows
            yield layout.batch(arrays, cells.num_rows), (first - 1) / file.metadata.num_rows


def _opened(source: Source) -> pq.ParquetFile:
    return pq.ParquetFile(source.data, page_checksum_verification=True, coerce_int96_timestamp_unit="us")


@contextmanager
def _intact(source: Source) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise source.bad(f"it cannot be read as Parquet ({error}); write the file again") from error


def _column(source: Source, field: Field, found: pa.DataType) -> Column:
    kind = field.parsed
    if not widens(found, kind):
        raise source.bad(f"column {field.name!r} is {found}, expected {field.type} or a type that widens to it")
    return Column(field, lambda cells: _typed(cells, kind))


def _typed(cells: pa.Array, kind: exp.DataType) -> pa.Array:
    values = cells.cast(arrow_type(kind))
    values.validate(full=True)
    return sound(values, kind)
