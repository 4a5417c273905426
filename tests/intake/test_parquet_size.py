"""The decoded size of Parquet files, whose values may repeat at any depth."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.errors import BadInput
from tidemill.intake.loader import load_file
from tidemill.intake.parquet_size import (
    check_page_sizes,
    estimate_decoded_size,
    list_expanding_columns,
    measure_decoded_size,
    split_batch,
)
from tidemill.model.change import Append
from tidemill.model.schema import Schema
from tidemill.ports.storage import LoadRequest

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


def write_pages(**options: Any) -> bytearray:
    file = BytesIO()
    rows = pa.table({"a": range(5_000), "b": [f"text {i % 7}" for i in range(5_000)]})
    pq.write_table(rows, file, data_page_size=1_000, row_group_size=2_000, **options)
    return bytearray(file.getbuffer())


@pytest.mark.parametrize("compression", ["none", "zstd", "snappy"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
def test_pages_are_as_large_as_declared(compression: str, version: str, dictionary: bool) -> None:
    content = write_pages(compression=compression, data_page_version=version, use_dictionary=dictionary)
    check_page_sizes(memoryview(content), pq.read_metadata(BytesIO(content)))


def test_a_page_that_claims_to_be_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    content = write_pages(use_dictionary=False, compression="snappy")
    size = next(n for n in (1, 2, 3) if content[6 + n] < 0x80)  # bytes of the size in the first header
    content[7 : 7 + size] = b"\xfe\xff\xff\xff\x0f"  # 2 GB
    path = tmp_path / "in.parquet"
    path.write_bytes(content)
    (tmp_path / "out").mkdir()
    request = LoadRequest(Schema.from_ddl("a bigint, b string"), Append(), tmp_path / "out")
    with pytest.raises(BadInput, match="a column's pages are larger than its metadata says"):
        load_file(path, request, max_bytes=1 << 20)
    assert pa.default_memory_pool().max_memory() < 1 << 30


@given(data=st.data())
def test_every_damage_of_a_page_is_harmless(data: st.DataObject) -> None:
    content = write_pages(compression="snappy")
    metadata = pq.read_metadata(BytesIO(content))
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(4, len(content) - metadata.serialized_size - 9))] = data.draw(st.integers(0, 255))
    with suppress(pa.ArrowInvalid):
        check_page_sizes(memoryview(content), metadata)
