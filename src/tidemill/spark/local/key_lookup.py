"""Few keys looked up by the driver among millions of rows.

To find few rows Spark makes rows of all of them; Arrow compares columns, and takes a third of the time, or a tenth
where the keys are many. Where they are very few and one of their columns holds whole numbers, most rows are out by its
hash alone, and texts are not read where the files keep codes for them (docs/benchmarks.md).
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

SEARCHED = 256 << 20
"""Bytes of files up to which keys are looked up here: more is for all of Spark's executors."""

SIEVED = 400
"""So many rows for each key, or more: it pays to look at one column first."""

_BITS = 20  # of a hash
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 by the golden ratio
_LENGTH = 4  # bytes that a text takes at least where it is written out

_EXACT = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
)
"""Types whose values Arrow holds for equal exactly where Spark does: not floats, whose -0.0 it tells from 0.0."""


def is_searchable(blocks: Iterable[Block]) -> bool:
    """Are there rows, and few enough bytes of them that the driver had better look through them itself?"""
    return 0 < sum(b.bytes for b in blocks) <= SEARCHED


def open_files(paths: Sequence[str], wanted: StructType) -> ds.Dataset | None:
    """The rows of files, to be looked through; None if they are remote."""
    if not all(path.startswith("/") for path in paths):
        return None
    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.dataset(paths, build_arrow_schema(wanted), ds.ParquetFileFormat(default_fragment_scan_options=checked))


def find_rows(content: ds.Dataset, keys: pa.Table, on: Sequence[tuple[str, str]]) -> pa.Table | None:
    """The rows that agree with some of the keys; None if that is for Spark to say.

    So it is where values may be equal that are not the same, or are kept in another type, and where NULL is looked
    for and found: Spark's look-ups hold it for equal to NULL, Arrow's do not.
    """
    mine = [column for column, _ in on]
    few = pa.table([keys.column(key) for _, key in on], names=mine)
    if not all(_is_comparable(content.schema.field(c).type, few.column(c).type) for c in mine):
        return None
    try:
        if _has_null(content, [c for c in mine if few.column(c).null_count]):
            return None
        few = few.drop_null()
        return _find_candidates(content, few).join(few, mine, mine, "left semi").to_table()
    except (pa.ArrowException, OSError):  # Spark will say what is wrong with the files, if anything
        return None


def _has_null(content: ds.Dataset, columns: Sequence[str]) -> bool:
    unknown = [pc.field(c).is_null() for c in columns]
    return bool(unknown) and content.count_rows(filter=reduce(pc.Expression.__or__, unknown)) > 0


def _find_candidates(content: ds.Dataset, few: pa.Table) -> ds.Dataset:
    """All rows that may agree with some of the keys, and others."""
    whole = next((c for c in few.column_names if pa.types.is_integer(few.column(c).type)), None)
    if whole is None or not isinstance(content, ds.FileSystemDataset):
        return content
    known = {path: pq.read_metadata(path) for path in content.files}
    everywhere = all({*content.schema.names} <= {*m.schema.to_arrow_schema().names} for m in known.values())
    if few.num_rows * SIEVED > sum(m.num_rows for m in known.values()) or not everywhere:
        return content
    sieve = _HashFilter.from_values(few.column(whole), whole, content.schema)
    work = [
        (path, group, _list_dictionary_columns(m, group))
        for path, m in known.items()
        for group in range(m.num_row_groups)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return ds.dataset(pa.concat_tables(pool.map(lambda at: sieve.filter_row_group(*at), work)))


@dataclass(frozen=True, slots=True)
class _HashFilter:
    """Lets every row through that has one of some whole numbers in a column, and hardly any other."""

    column: str
    holes: npt.NDArray[np.bool_]
    schema: pa.Schema

    @classmethod
    def from_values(cls, values: pa.ChunkedArray, column: str, schema: pa.Schema) -> _HashFilter:
        holes = np.zeros(1 << _BITS, dtype=np.bool_)
        holes[_compute_hashes(values)] = True
        return cls(column, holes, schema)

    def filter_row_group(self, path: str, group: int, coded: list[str]) -> pa.Table:
        """What it lets through of a file's group of rows."""
        with pq.ParquetFile(path, read_dictionary=coded, page_checksum_verification=True) as file:
            rows = file.read_row_group(group, columns=self.schema.names, use_threads=False)
        through = np.flatnonzero(self.holes[_compute_hashes(rows.column(self.column))])
        return rows.take(pa.array(through)).select(self.schema.names).cast(self.schema)


def _compute_hashes(values: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """NULL, which nobody looks for, has some hash or other."""
    numbers: npt.NDArray[np.uint64] = pc.fill_null(values, 0).to_numpy().astype(np.int64).view(np.uint64)
    spread: npt.NDArray[np.uint64] = np.right_shift(numbers * _SPREAD, np.uint64(64 - _BITS))
    return spread


def _list_dictionary_columns(known: pq.FileMetaData, group: int) -> list[str]:
    """The texts that a file holds as codes of a dictionary: nothing else takes less than its length does."""
    chunks = [known.row_group(group).column(i) for i in range(known.num_columns)]
    texts = [c for c in chunks if c.physical_type == "BYTE_ARRAY" and "." not in c.path_in_schema]
    return [c.path_in_schema for c in texts if c.total_uncompressed_size < _LENGTH * c.num_values]


def _is_comparable(mine: pa.DataType, theirs: pa.DataType) -> bool:
    return mine == theirs and any(exact(mine) for exact in _EXACT)
