"""Parquet: columns by name, with types that widen to the channel's without loss.

A timestamp without a zone is read as UTC if the channel's type is an instant.

A small file can hold many rows: pages are compressed, and a dictionary stores a value once for all of its rows. So the
decoded size is estimated before rows are read, and counted while they are read.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
from sqlglot import exp

from tidemill.encoding.arrow_types import INSTANTS, list_struct_fields, parse_decimal_shape, to_arrow_type
from tidemill.intake.cell_columns import ColumnConverter
from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import InputFile
from tidemill.intake.parquet_size import (
    check_page_sizes,
    estimate_decoded_size,
    list_expanding_columns,
    measure_decoded_size,
    split_batch,
)
from tidemill.model.error_summary import mask_values
from tidemill.model.schema import Field

_BATCH_ROWS = 65_536


def read_parquet(source: InputFile, layout: DeltaLayout) -> Generator[tuple[pa.RecordBatch, float], None, None]:
    with _translate_errors(source), _open_parquet(source) as file:
        file_schema = file.schema_arrow
        layout.check_names(source, file_schema.names)
        columns = [_build_column(source, layout.schema.get_field(f.name), f.type) for f in file_schema]
        first_row = 1
        for cells in _read_batches(source, file):
            arrays = {
                column.field.name: column.convert_cells(source, cells.column(i), first_row)
                for i, column in enumerate(columns)
            }
            first_row += cells.num_rows
            yield layout.build_batch(arrays, cells.num_rows), (first_row - 1) / file.metadata.num_rows


def _open_parquet(source: InputFile) -> pq.ParquetFile:
    """The file, whose declared rows fit. Columns that may be larger than declared are read as dictionaries."""
    options: dict[str, Any] = {"page_checksum_verification": True, "coerce_int96_timestamp_unit": "us"}
    if source.max_bytes is not None:
        metadata = pq.read_metadata(source.data)
        source.check_decoded_size(estimate_decoded_size(metadata))
        check_page_sizes(source.map_bytes(), metadata)
        options["read_dictionary"] = list_expanding_columns(metadata)
    return pq.ParquetFile(source.data, **options)


def _read_batches(source: InputFile, file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """The rows of one row group after the other, in pieces whose decoded size is limited."""
    decoded = 0
    for group in range(file.num_row_groups):
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group]):
            decoded += measure_decoded_size(batch)
            source.check_decoded_size(decoded)
            yield from split_batch(batch)


@contextmanager
def _translate_errors(source: InputFile) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise source.build_error(
            f"it cannot be read as Parquet ({mask_values(str(error))}); write the file again"
        ) from error


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


_BITS = {exp.DType.TINYINT: 8, exp.DType.SMALLINT: 16, exp.DType.INT: 32, exp.DType.BIGINT: 64}
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def can_widen(source: pa.DataType, kind: exp.DataType) -> bool:
    """Whether every value of type `source` is also one of `kind`.

    Two exceptions are checked by value: years outside Spark's range, and nanoseconds, which pandas writes by default
    and which are mostly zero.
    """
    if pt.is_null(source):
        return True
    if pt.is_dictionary(source):
        return can_widen(source.value_type, kind)
    return _RULES[kind.this](source, kind) and _can_cast(source, kind)


def _can_cast(source: pa.DataType, kind: exp.DataType) -> bool:
    try:
        pa.array([], source).cast(to_arrow_type(kind))
    except pa.ArrowException:
        return False
    return True


def _can_be_integer(source: pa.DataType, kind: exp.DataType) -> bool:
    bits = _BITS[kind.this]
    if pt.is_signed_integer(source):
        return bool(source.bit_width <= bits)
    return bool(pt.is_unsigned_integer(source) and source.bit_width < bits)


def _can_be_decimal(source: pa.DataType, kind: exp.DataType) -> bool:
    precision, scale = parse_decimal_shape(kind)
    if pt.is_integer(source):
        return _DIGITS[source.bit_width] <= precision - scale
    return bool(
        pt.is_decimal(source) and source.scale <= scale and source.precision - source.scale <= precision - scale
    )


def _can_be_struct(source: pa.DataType, kind: exp.DataType) -> bool:
    fields = list(list_struct_fields(kind))
    if not pt.is_struct(source) or sorted(f.name for f in source) != sorted(f.name for f in fields):
        return False
    return all(can_widen(source.field(f.name).type, f.data_type) for f in fields)


def _is_any_of(*tests: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType, exp.DataType], bool]:
    return lambda source, _: any(test(source) for test in tests)


def _can_be_array(source: pa.DataType, kind: exp.DataType) -> bool:
    is_list = _is_any_of(pt.is_list, pt.is_large_list, pt.is_fixed_size_list)(source, kind)
    return is_list and can_widen(source.value_type, kind.expressions[0])


def _can_be_map(source: pa.DataType, kind: exp.DataType) -> bool:
    key, value = kind.expressions
    return bool(pt.is_map(source)) and can_widen(source.key_type, key) and can_widen(source.item_type, value)


def _is_short(bits: int) -> Callable[[pa.DataType], bool]:
    return lambda source: bool(pt.is_integer(source) and source.bit_width <= bits)


_RULES: dict[exp.DType, Callable[[pa.DataType, exp.DataType], bool]] = {
    exp.DType.BOOLEAN: _is_any_of(pt.is_boolean),
    **dict.fromkeys(_BITS, _can_be_integer),
    exp.DType.FLOAT: _is_any_of(pt.is_float16, pt.is_float32, _is_short(16)),
    exp.DType.DOUBLE: _is_any_of(pt.is_floating, _is_short(32)),
    exp.DType.DECIMAL: _can_be_decimal,
    exp.DType.TEXT: _is_any_of(pt.is_string, pt.is_large_string, pt.is_string_view),
    exp.DType.BINARY: _is_any_of(pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary, pt.is_binary_view),
    exp.DType.DATE: _is_any_of(pt.is_date),
    **dict.fromkeys(INSTANTS, _is_any_of(pt.is_timestamp)),
    exp.DType.TIMESTAMPNTZ: lambda source, _: bool(pt.is_timestamp(source) and source.tz is None),
    exp.DType.ARRAY: _can_be_array,
    exp.DType.MAP: _can_be_map,
    exp.DType.STRUCT: _can_be_struct,
}
