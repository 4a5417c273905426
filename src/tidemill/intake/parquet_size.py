"""The memory that the rows of a Parquet file take when they are decoded: by its metadata, and of batches as read.

Arrow allocates what the header of a page says, so the headers are compared with the metadata before a page is read.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from tidemill.encoding.parquet_pages import find_chunk, list_pages

_PIECE_BYTES = 64 << 20  # the decoded size of rows that are converted at once
_ROW_BYTES = 8  # of memory for each row, besides its values
_OFFSET_BYTES = 4  # of each text or list, besides its contents
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}  # by physical type


def estimate_decoded_size(metadata: pq.FileMetaData) -> int:
    """A lower bound of the memory of all rows: their declared pages, and no less than their values of fixed width."""
    return sum(_estimate_group(metadata.row_group(i)) for i in range(metadata.num_row_groups))


def _estimate_group(group: pq.RowGroupMetaData) -> int:
    chunks = [group.column(i) for i in range(group.num_columns)]
    sizes = (max(c.total_uncompressed_size, c.num_values * _WIDTHS.get(c.physical_type, _OFFSET_BYTES)) for c in chunks)
    return int(max(0, group.num_rows) * _ROW_BYTES + sum(max(0, size) for size in sizes))


def check_page_sizes(file: memoryview, metadata: pq.FileMetaData) -> None:
    """Raise `ArrowInvalid` if the pages of a column are larger than the metadata says."""
    for group in (metadata.row_group(i) for i in range(metadata.num_row_groups)):
        for chunk in (group.column(i) for i in range(group.num_columns)):
            declared = chunk.total_uncompressed_size
            for page in list_pages(file[find_chunk(chunk)]):
                declared -= page.uncompressed_size
                if declared < 0:
                    raise pa.ArrowInvalid("a column's pages are larger than its metadata says")


def list_expanding_columns(metadata: pq.FileMetaData) -> list[str]:
    """The paths of texts that may repeat so often that they would not fit in memory. They are read as dictionaries."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    chunks = (group.column(i) for group in groups for i in range(group.num_columns))
    return list(dict.fromkeys(chunk.path_in_schema for chunk in chunks if _is_expanding(chunk)))


def _is_expanding(chunk: pq.ColumnChunkMetaData) -> bool:
    is_repeated = any("DICTIONARY" in encoding for encoding in chunk.encodings)
    largest = chunk.num_values * chunk.total_uncompressed_size
    return bool(chunk.physical_type == "BYTE_ARRAY" and is_repeated and largest > _PIECE_BYTES)


def split_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in pieces that take little memory when they are decoded, or in single rows."""
    if batch.num_rows <= 1 or measure_decoded_size(batch) <= _PIECE_BYTES:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from split_batch(batch.slice(0, middle))
    yield from split_batch(batch.slice(middle))


def measure_decoded_size(batch: pa.RecordBatch) -> int:
    """The size of the batch with every value of a dictionary written out.

    >>> words = pa.DictionaryArray.from_arrays(pa.array([0, 0, None], pa.int32()), ["x" * 1000])
    >>> measure_decoded_size(pa.record_batch({"words": words}))
    2012
    """
    return sum(_measure_array(column) for column in batch.columns)


def _measure_array(array: pa.Array) -> int:
    kind = array.type
    if pt.is_dictionary(kind) and _is_text(kind.value_type):
        lengths = pc.take(pc.binary_length(array.dictionary), array.indices)
        return len(array) * _OFFSET_BYTES + int(pc.sum(lengths).as_py() or 0)
    if pt.is_map(kind):
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return sum(_measure_array(part.slice(begin, end - begin)) for part in (array.keys, array.items))
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return len(array) * _OFFSET_BYTES + _measure_array(array.flatten())
    if pt.is_struct(kind):
        return sum(_measure_array(part) for part in array.flatten())
    return max(int(array.nbytes), len(array) * _OFFSET_BYTES)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_binary(kind) or pt.is_large_string(kind) or pt.is_large_binary(kind))
