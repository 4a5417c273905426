"""The pages of a Parquet file: their sizes and checksums, without decompressing them.

A page header is a Thrift struct in the compact protocol; only 32-bit integers are decoded here, and other fields are
skipped.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

_UNCOMPRESSED_SIZE, _COMPRESSED_SIZE, _CHECKSUM = 2, 3, 4
"""Numbers of fields of a page header."""

_BOOLEANS = (1, 2)
_BYTE, _INT32, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _STRUCT = 3, 5, (4, 5, 6), 7, 8, (9, 10), 12
"""Types of the compact protocol."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it is stored."""

    uncompressed_size: int
    checksum: int | None
    content: memoryview
    end: int  # its position in the chunk


def find_chunk(chunk: pq.ColumnChunkMetaData) -> slice:
    """The bytes of a file that Arrow reads for a chunk of a column: none if it has no values."""
    if chunk.num_values <= 0:
        return slice(0, 0)
    dictionary, start = chunk.dictionary_page_offset or 0, chunk.data_page_offset
    start = dictionary if 0 < dictionary < start else start
    return slice(start, start + chunk.total_compressed_size)


def list_pages(chunk: memoryview) -> Iterator[Page]:
    """The pages of a chunk; raises `ArrowInvalid` if they cannot be found."""
    position = 0
    while position < len(chunk):
        page = _read_page(chunk, position)
        yield page
        position = page.end


def _read_page(chunk: memoryview, position: int) -> Page:
    reader = _HeaderReader(chunk, position)
    try:
        header = reader.read_struct()
        start, size, uncompressed_size = reader.position, header[_COMPRESSED_SIZE], header[_UNCOMPRESSED_SIZE]
    except (LookupError, RecursionError) as error:
        raise pa.ArrowInvalid("a page header is damaged") from error
    if size < 0 or uncompressed_size < 0 or start + size > len(chunk):
        raise pa.ArrowInvalid("the size in a page header is wrong")
    return Page(uncompressed_size, header.get(_CHECKSUM), chunk[start : start + size], start + size)


class _HeaderReader:
    """Reads one struct of the compact protocol."""

    def __init__(self, data: memoryview, position: int) -> None:
        self._data = data
        self.position = position

    def read_struct(self) -> dict[int, int]:
        """Read all fields; returns the 32-bit integers among them, by their numbers."""
        integers: dict[int, int] = {}
        number = 0
        while byte := self._read_byte():
            kind, step = byte & 0x0F, byte >> 4
            number = number + step if step else self._read_integer()
            if kind == _INT32:
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
            raise pa.ArrowInvalid(f"a page header has a value of the unknown type {kind}")

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
