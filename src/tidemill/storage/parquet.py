"""What storage needs to know of Parquet: how many rows a file holds, and whether all of it can be read."""

from __future__ import annotations

from typing import IO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


class UnreadableParquet(Exception):
    """The bytes are not a whole Parquet file; the message is the reader's."""


def read_row_count(file: IO[bytes]) -> int:
    """The number of rows that the footer states."""
    try:
        return cast(int, pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise _classify_error(error) from error


def read_latest_time(file: IO[bytes], column: str) -> int | None:
    """The latest moment in a column of timestamps, in microseconds since the epoch; None if there is none."""
    latest = pc.max(pq.read_table(file, columns=[column])[column])
    return cast(int | None, latest.cast(pa.timestamp("us")).value)


def read_through(file: IO[bytes]) -> int:
    """Decode every page of every column, checking page checksums; returns the rows found."""
    try:
        whole = pq.ParquetFile(file, page_checksum_verification=True)
        return sum(batch.num_rows for batch in whole.iter_batches())
    except (pa.ArrowException, OSError) as error:
        raise _classify_error(error) from error


def _classify_error(error: Exception) -> Exception:
    """Arrow's complaints about content carry no errno; those of the file system do, and stay what they are."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    return UnreadableParquet(str(error).strip())
