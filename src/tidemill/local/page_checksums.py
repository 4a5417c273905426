"""Verification of the page checksums of Parquet files, which DuckDB does not check.

A page header is a Thrift struct in the compact protocol; only its sizes and its checksum are decoded here, and other
fields are skipped. The pages themselves are neither decompressed nor decoded: the checksum covers the stored bytes.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import pyarrow.parquet as pq

from tidemill.errors import BlockDamaged

_COMPRESSED_SIZE, _CHECKSUM = 3, 4
"""Numbers of fields of a page header."""

_BOOLEANS = (1, 2)
_BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _STRUCT = 3, (4, 5, 6), 7, 8, (9, 10), 12
"""Types of the compact protocol."""


@dataclass(frozen=True, slots=True)
class PageHeader:
    """The size of a page as stored, its checksum if it has one, and the position of its first byte."""

    start: int
    size: int
    checksum: int | None


def verify_checksums(path: Path, columns: Collection[str]) -> None:
    """Raise `BlockDamaged` if a page of these columns does not have the checksum that was written with it."""
    try:
        metadata = pq.read_metadata(path)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            data = memoryview(content)
            try:
                _verify_pages(data, metadata, columns, path)
            finally:
                data.release()
    except (OSError, ValueError, LookupError) as error:  # Arrow's errors are of the first two kinds
        raise BlockDamaged(f"{path} cannot be read: {error}") from error


def _verify_pages(data: memoryview, metadata: pq.FileMetaData, columns: Collection[str], path: Path) -> None:
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    chunks = [group.column(i) for group in groups for i in range(metadata.num_columns)]
    for chunk in (c for c in chunks if c.path_in_schema.split(".")[0] in columns):
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        for page in _list_pages(data, start, start + chunk.total_compressed_size):
            if page.checksum is not None and crc32(data[page.start : page.start + page.size]) != page.checksum:
                problem = f"a page of column {chunk.path_in_schema} has a wrong checksum"
                raise BlockDamaged(f"{path} cannot be read: {problem}")


def _list_pages(data: memoryview, start: int, end: int) -> Iterator[PageHeader]:
    while start < end:
        page = _HeaderReader(data, start).read_header()
        yield page
        start = page.start + page.size


class _HeaderReader:
    """Reads one struct of the compact protocol."""

    def __init__(self, data: memoryview, position: int) -> None:
        self._data = data
        self._position = position

    def read_header(self) -> PageHeader:
        integers = self._read_struct()
        checksum = integers[_CHECKSUM] & 0xFFFFFFFF if _CHECKSUM in integers else None
        return PageHeader(self._position, integers[_COMPRESSED_SIZE], checksum)

    def _read_struct(self) -> dict[int, int]:
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
            self._read_struct()
        elif kind in _LISTS:
            self._skip_list()
        elif kind in (_BYTE, _DOUBLE, _BINARY):
            size = {_BYTE: 1, _DOUBLE: 8}.get(kind) or self._read_varint()
            self._position += size
        else:
            raise ValueError(f"a page header has a value of the unknown type {kind}")

    def _skip_list(self) -> None:
        byte = self._read_byte()
        kind, size = byte & 0x0F, byte >> 4
        for _ in range(self._read_varint() if size == 15 else size):
            if kind in _BOOLEANS:
                self._position += 1
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
        self._position += 1
        return self._data[self._position - 1]
