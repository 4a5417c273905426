"""Reading what a Parquet file says of itself, and all of it."""

from typing import IO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.storage.trouble import UnreadableParquet


def read_row_count(file: IO[bytes]) -> int:
    """The number of rows that the footer states."""
    try:
        return cast(int, pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise _classify_error(error) from error


def read_latest_time(file: IO[bytes], column: str) -> int | None:
    """The latest value in a column of timestamps, in microseconds since the epoch; None if there is none."""
    latest = pc.max(pq.read_table(file, columns=[column])[column])
    return cast(int | None, latest.cast(pa.timestamp("us")).value)


def read_through(file: IO[bytes]) -> int:
    """Decode every page of every column and verify page checksums; returns the number of rows."""
    try:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        return sum(batch.num_rows for batch in parquet.iter_batches())
    except (pa.ArrowException, OSError) as error:
        raise _classify_error(error) from error


def _classify_error(error: Exception) -> Exception:
    """`UnreadableParquet` for Arrow's errors about content; errors of the file system, which have an errno, as is."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    return UnreadableParquet(str(error).strip())
