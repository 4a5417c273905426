"""The rows that the driver reads from blocks itself, in full or by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tidemill.algebra.operators import ORDER, BlockScan
from tidemill.algebra.program import MAX_COLLECTED_ROWS
from tidemill.spark.local import batches, key_lookup
from tidemill.spark.local.batches import LocalBatch
from tidemill.spark.types import parse_ddl, to_nullable_ddl


class LocalBlockReader:
    """Reads local files without Spark; None for scans that Spark must read."""

    def __init__(self, locate: Callable[[str], str]) -> None:
        self._locate = locate

    def is_local(self, scan: BlockScan) -> bool:
        """Whether it is so small that the driver reads it, even twice, and computes on it, instead of Spark.

        In a content a few keys may be looked up instead.
        """
        is_delta = scan.is_change or ORDER in scan.columns
        return batches.has_few_rows(scan.blocks, MAX_COLLECTED_ROWS if is_delta else batches.MAX_SNAPSHOT_ROWS)

    def read_scan(self, scan: BlockScan) -> LocalBatch | None:
        """The rows of a scan, if they are few."""
        return batches.read_blocks(scan, self._locate) if self.is_local(scan) else None

    def find_by_keys(self, scan: BlockScan, keys: pa.Table, on: Sequence[tuple[str, str]]) -> LocalBatch | None:
        """The rows of a scan that match one of the keys."""
        is_stored = scan.stored_schema.has_same_shape(scan.schema) and ORDER not in scan.columns
        if not is_stored or not key_lookup.is_searchable(scan.blocks):
            return None
        key_columns = {column for column, _ in on}
        fields = scan.schema.select_fields(n for n in scan.schema.names if n in scan.columns or n in key_columns)
        struct = parse_ddl(to_nullable_ddl(fields))
        files = key_lookup.open_files([self._locate(path) for path in scan.files], struct)
        rows = None if files is None else key_lookup.find_rows(files, keys, on)
        return None if rows is None else LocalBatch(rows, struct).select_columns(scan.columns)
