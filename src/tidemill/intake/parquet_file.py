"""Parquet: columns by name, with types that widen to the channel's without loss.

A timestamp without a zone is read as UTC if the channel's type is an instant.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from tidemill.encoding.arrow_types import to_arrow_type
from tidemill.intake.cell_columns import ColumnConverter
from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import InputFile
from tidemill.intake.type_widening import can_widen
from tidemill.model.schema import Field

_BATCH_ROWS = 65_536


def read_parquet(source: InputFile, layout: DeltaLayout) -> Generator[tuple[pa.RecordBatch, float], None, None]:
    with _translate_errors(source), _open_parquet(source) as file:
        file_schema = file.schema_arrow
        layout.check_names(source, file_schema.names)
        columns = [_build_column(source, layout.schema.get_field(f.name), f.type) for f in file_schema]
        first_row = 1
        for cells in file.iter_batches(batch_size=_BATCH_ROWS):
            arrays = {
                column.field.name: column.convert_cells(source, cells.column(i), first_row)
                for i, column in enumerate(columns)
            }
            first_row += cells.num_rows
            yield layout.build_batch(arrays, cells.num_rows), (first_row - 1) / file.metadata.num_rows


def _open_parquet(source: InputFile) -> pq.ParquetFile:
    return pq.ParquetFile(source.data, page_checksum_verification=True, coerce_int96_timestamp_unit="us")


@contextmanager
def _translate_errors(source: InputFile) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise source.build_error(f"it cannot be read as Parquet ({error}); write the file again") from error


def _build_column(source: InputFile, field: Field, file_type: pa.DataType) -> ColumnConverter:
    if not can_widen(file_type, field.data_type):
        raise source.build_error(
            f"column {field.name!r} is {file_type}, expected {field.type} or a type that widens to it"
        )
    return ColumnConverter(field, _convert_cells)


def _convert_cells(cells: pa.Array, kind: exp.DataType) -> pa.Array:
    values = cells.cast(to_arrow_type(kind))
    values.validate(full=True)
    return values
