"""Small Parquet files for the tests of this directory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_parquet(path: Path, rows: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"n": pa.array(range(rows), pa.int64()), "s": [f"row {n}" for n in range(rows)]})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    return path


def flip_byte(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)
