"""Verification of the page checksums of Parquet files, which DuckDB does not check.

A page header is a Thrift struct in the compact protocol; only its sizes and its checksum are decoded here, and other
fields are skipped. The pages themselves are neither decompressed nor decoded: the checksum covers the stored bytes.
"""

from collections.abc import Collection
from pathlib import Path
from zlib import crc32

import pyarrow.parquet as pq

from tidemill.errors import BlockDamaged

_COMPRESSED_SIZE, _CHECKSUM = 3, 4
"""Numbers of fields of a page header."""

_BOOLEANS = (1, 2)
_BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _STRUCT = 3, (4, 5, 6), 7, 8, (9, 10), 12
"""Types of the compact protocol."""


def verify_checksums(path: Path, columns: Collection[str]) -> None:
    """Raise `BlockDamaged` if a page of these columns does not have the checksum that was written with it."""
    try:
        metadata = pq.read_metadata(path)
        groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
        chunks = [group.column(i) for group in groups for i in range(metadata.num_columns)]
        with path.open("rb") as file:
            for chunk in (c for c in chunks if c.path_in_schema.split(".")[0] in columns):
                file.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
                _verify_pages(memoryview(file.read(chunk.total_compressed_size)), chunk.path_in_schema, path)
    except (OSError, ValueError, LookupError) as error:  # Arrow's errors are of the first two kinds
        raise BlockDamaged(f"{path} cannot be read: {error}") from error


def _verify_pages(data: memoryview, column: str, path: Path) -> None:
    end = 0
    while end < len(data):
        reader = _HeaderReader(data, end)
        header = reader.read_struct()
        end = reader.position + header[_COMPRESSED_SIZE]
        checksum = header.get(_CHECKSUM)
        if checksum is not None and crc32(data[reader.position : end]) != checksum & 0xFFFFFFFF:
            raise BlockDamaged(f"{path} cannot be read: a page of column {column} has a wrong checksum")


class _HeaderReader:
    """Reads one struct of the compact protocol."""

    def __init__(self, data: memoryview, position: int) -> None:
        self._data = data
        self.position = position

    def read_struct(self) -> dict[int, int]:
        """Read all fields; returns the integers among them, by their numbers."""
        integers: dict[int, int] = {}
        number = 0
        while byte := self._read_byte():
            kind, step = byte & 0x0F, byte >> 4
            number = number + step if step else self._read_integer()
            if kind in _INTEGERS:
                integers[number] = self._read_integer()
            else:
                self._skip_value(kind)
        return integers

    def _skip_value(self, kind: int) -> None:
        if kind in _BOOLEANS:  # the type of a field is its value
            return
        if kind in _INTEGERS:
            self._read_varint()
        elif kind == _STRUCT:
            self.read_struct()
        elif kind in _LISTS:
            self._skip_list()
        elif kind in (_BYTE, _DOUBLE, _BINARY):
            size = {_BYTE: 1, _DOUBLE: 8}.get(kind) or self._read_varint()
            self.position += size
        else:
            raise ValueError(f"a page header has a value of the unknown type {kind}")

    def _skip_list(self) -> None:
        byte = self._read_byte()
        kind, size = byte & 0x0F, byte >> 4
        for _ in range(self._read_varint() if size == 15 else size):
            if kind in _BOOLEANS:
                self.position += 1
            else:
                self._skip_value(kind)

    def _read_integer(self) -> int:
        """A signed integer, in zigzag encoding."""
        value = self._read_varint()
        return (value >> 1) ^ -(value & 1)

    def _read_varint(self) -> int:
        value = shift = 0
        while (byte := self._read_byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _read_byte(self) -> int:
        self.position += 1
        return self._data[self.position - 1]
