"""The decoded size of Parquet files, whose values may repeat at any depth."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.intake.parquet_size import (
    estimate_decoded_size,
    list_expanding_columns,
    measure_decoded_size,
    split_batch,
)

ROWS, LENGTH = 1000, 200_000
TEXTS = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), ["x" * LENGTH])
OFFSETS = pa.array(range(ROWS + 1), pa.int32())
COLUMNS: dict[str, Any] = {
    "a": TEXTS,
    "a.list.element": pa.ListArray.from_arrays(OFFSETS, TEXTS),
    "a.f": pa.StructArray.from_arrays([TEXTS], ["f"]),
    "a.key_value.value": pa.MapArray.from_arrays(OFFSETS, pa.array(range(ROWS), pa.int32()), TEXTS),
}


@pytest.mark.parametrize("path", COLUMNS)
def test_repeated_texts_are_counted_each_time_and_read_in_pieces(path: str) -> None:
    file = BytesIO()
    pq.write_table(pa.table({"a": COLUMNS[path]}), file, store_schema=False)
    metadata = pq.read_metadata(file)
    assert list_expanding_columns(metadata) == [path]
    before = pa.total_allocated_bytes()
    with pq.ParquetFile(file, read_dictionary=[path]) as opened:
        (batch,) = opened.iter_batches()
    assert pa.total_allocated_bytes() - before < 10 * LENGTH
    assert ROWS * LENGTH <= measure_decoded_size(batch) < 1.1 * ROWS * LENGTH
    pieces = list(split_batch(batch))
    assert sum(piece.num_rows for piece in pieces) == ROWS
    assert max(measure_decoded_size(piece) for piece in pieces) <= 64 << 20


def test_rows_without_contents_are_counted_by_their_width() -> None:
    file = BytesIO()
    pq.write_table(pa.table({"a": pa.array([7] * 100_000, pa.int64())}), file)
    metadata = pq.read_metadata(file)
    assert metadata.row_group(0).total_byte_size < 10_000
    assert estimate_decoded_size(metadata) == 100_000 * (8 + 8)
