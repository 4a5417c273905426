"""Lookup of a few keys among millions of rows on the driver.

To find few rows, Spark materialises all of them; Arrow compares columns, and takes a third of the time, or a tenth if
the keys are many. If the keys are very few and one of their columns is an integer, a hash filter on it drops most rows,
and dictionary-encoded strings are not decoded (docs/benchmarks.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from tidemill.model.block import Block
from tidemill.spark.local.batches import build_arrow_schema

MAX_SEARCH_BYTES = 256 << 20
"""Bytes of files up to which keys are looked up on the driver: more are left to Spark's executors."""

MIN_ROWS_PER_KEY = 400
"""Rows for each key from which a hash filter on one column pays off."""

_HASH_BITS = 20
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio
_MIN_STRING_BYTES = 4  # bytes that a plainly encoded string takes at least

_EXACT = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
)
"""Types whose values are equal in Arrow exactly where they are in Spark: not floats, where -0.0 differs from 0.0."""


def is_searchable(blocks: Iterable[Block]) -> bool:
    """Whether there are rows, and few enough bytes that the driver should search them itself."""
    return 0 < sum(b.bytes for b in blocks) <= MAX_SEARCH_BYTES


def open_files(paths: Sequence[str], struct: StructType) -> ds.Dataset | None:
    """The rows of files as a dataset; None if they are remote."""
    if not all(path.startswith("/") for path in paths):
        return None
    scan_options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.dataset(
        paths, build_arrow_schema(struct), ds.ParquetFileFormat(default_fragment_scan_options=scan_options)
    )


def find_rows(content: ds.Dataset, keys: pa.Table, on: Sequence[tuple[str, str]]) -> pa.Table | None:
    """The rows that match one of the keys; None if Spark must find them.

    Spark must if equal values may have different representations or types, and if a key and the content both contain
    NULL: Spark's lookups treat NULL as equal to NULL, Arrow's do not.
    """
    columns = [column for column, _ in on]
    lookup = pa.table([keys.column(key) for _, key in on], names=columns)
    if not all(_is_comparable(content.schema.field(c).type, lookup.column(c).type) for c in columns):
        return None
    try:
        if _has_null(content, [c for c in columns if lookup.column(c).null_count]):
            return None
        lookup = lookup.drop_null()
        return _find_candidates(content, lookup).join(lookup, columns, columns, "left semi").to_table()
    except (pa.ArrowException, OSError):  # Spark will report a problem with the files, if there is one
        return None


def _has_null(content: ds.Dataset, columns: Sequence[str]) -> bool:
    conditions = [pc.field(c).is_null() for c in columns]
    return bool(conditions) and content.count_rows(filter=reduce(pc.Expression.__or__, conditions)) > 0


def _find_candidates(content: ds.Dataset, lookup: pa.Table) -> ds.Dataset:
    """A superset of the rows that match one of the keys."""
    integer_column = next((c for c in lookup.column_names if pa.types.is_integer(lookup.column(c).type)), None)
    if integer_column is None or not isinstance(content, ds.FileSystemDataset):
        return content
    metadata = {path: pq.read_metadata(path) for path in content.files}
    has_all_columns = all({*content.schema.names} <= {*m.schema.to_arrow_schema().names} for m in metadata.values())
    if lookup.num_rows * MIN_ROWS_PER_KEY > sum(m.num_rows for m in metadata.values()) or not has_all_columns:
        return content
    hash_filter = _HashFilter.from_values(lookup.column(integer_column), integer_column, content.schema)
    row_groups = [
        (path, group, _list_dictionary_columns(m, group))
        for path, m in metadata.items()
        for group in range(m.num_row_groups)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return ds.dataset(
            pa.concat_tables(pool.map(lambda row_group: hash_filter.filter_row_group(*row_group), row_groups))
        )


@dataclass(frozen=True, slots=True)
class _HashFilter:
    """Passes every row with one of some integers in a column, and hardly any other."""

    column: str
    bitmap: npt.NDArray[np.bool_]
    schema: pa.Schema

    @classmethod
    def from_values(cls, values: pa.ChunkedArray, column: str, schema: pa.Schema) -> _HashFilter:
        holes = np.zeros(1 << _HASH_BITS, dtype=np.bool_)
        holes[_compute_hashes(values)] = True
        return cls(column, holes, schema)

    def filter_row_group(self, path: str, group: int, dictionary_columns: list[str]) -> pa.Table:
        """The rows of a file's row group that pass."""
        with pq.ParquetFile(path, read_dictionary=dictionary_columns, page_checksum_verification=True) as file:
            rows = file.read_row_group(group, columns=self.schema.names, use_threads=False)
        positions = np.flatnonzero(self.bitmap[_compute_hashes(rows.column(self.column))])
        return rows.take(pa.array(positions)).select(self.schema.names).cast(self.schema)


def _compute_hashes(values: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """The hashes of values; that of NULL, which is never looked up, is arbitrary."""
    numbers: npt.NDArray[np.uint64] = pc.fill_null(values, 0).to_numpy().astype(np.int64).view(np.uint64)
    hashes: npt.NDArray[np.uint64] = np.right_shift(numbers * _SPREAD, np.uint64(64 - _HASH_BITS))
    return hashes


def _list_dictionary_columns(metadata: pq.FileMetaData, group: int) -> list[str]:
    """The string columns that a row group stores dictionary-encoded, recognised by their small size."""
    chunks = [metadata.row_group(group).column(i) for i in range(metadata.num_columns)]
    texts = [c for c in chunks if c.physical_type == "BYTE_ARRAY" and "." not in c.path_in_schema]
    return [c.path_in_schema for c in texts if c.total_uncompressed_size < _MIN_STRING_BYTES * c.num_values]


def _is_comparable(left: pa.DataType, right: pa.DataType) -> bool:
    return left == right and any(exact(left) for exact in _EXACT)
