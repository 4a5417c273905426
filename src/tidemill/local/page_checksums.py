"""Verification of the page checksums of Parquet files, which DuckDB does not check.

The pages are neither decompressed nor decoded: the checksum covers the stored bytes.
"""

from collections.abc import Collection
from pathlib import Path
from zlib import crc32

import pyarrow.parquet as pq

from tidemill.encoding.parquet_pages import find_chunk, list_pages
from tidemill.errors import BlockDamaged


def verify_checksums(path: Path, columns: Collection[str]) -> None:
    """Raise `BlockDamaged` if a page of these columns does not have the checksum that was written with it."""
    try:
        metadata = pq.read_metadata(path)
        groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
        chunks = [group.column(i) for group in groups for i in range(metadata.num_columns)]
        with path.open("rb") as file:
            for chunk in (c for c in chunks if c.path_in_schema.split(".")[0] in columns):
                place = find_chunk(chunk)
                file.seek(place.start)
                _verify_pages(memoryview(file.read(place.stop - place.start)), chunk.path_in_schema, path)
    except (OSError, ValueError) as error:  # Arrow's errors are of both kinds
        raise BlockDamaged(f"{path} cannot be read: {error}") from error


def _verify_pages(data: memoryview, column: str, path: Path) -> None:
    for page in list_pages(data):
        if page.checksum is not None and crc32(page.content) != page.checksum & 0xFFFFFFFF:
            raise BlockDamaged(f"{path} cannot be read: a page of column {column} has a wrong checksum")
