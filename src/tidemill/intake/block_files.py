"""Writing of the Parquet files of a loaded block."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.errors import StorageError

_ROWS = 1_000_000
_BYTES = 128 << 20


class BlockFileWriter:
    """Writes few large files, each buffered in memory until it is full; `paths` is in the order of the rows."""

    def __init__(self, directory: Path, schema: pa.Schema, *, rows: int = _ROWS, bytes: int = _BYTES) -> None:
        self.paths: list[Path] = []
        self._directory = directory
        self._schema = schema
        self._max_rows = rows
        self._max_bytes = bytes
        self._buffer: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0  # of the buffered batches

    def add_batch(self, batch: pa.RecordBatch) -> None:
        self._buffer.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= self._max_rows or self._bytes >= self._max_bytes:
            self.flush_rows()

    def flush_rows(self) -> None:
        """Write the buffered rows; without rows no file is written."""
        if self._rows:
            path = self._directory / f"part-{len(self.paths):05}.parquet"
            self.paths.append(path)
            _write_table(pa.Table.from_batches(self._buffer, self._schema), path)
        self._buffer = []
        self._rows = self._bytes = 0

    def delete_files(self) -> None:
        for path in self.paths:
            path.unlink(missing_ok=True)


def _write_table(table: pa.Table, path: Path) -> None:
    try:
        pq.write_table(table, path, compression="zstd", write_page_checksum=True, store_schema=False)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; check that the directory is writable and has space"
        ) from error
