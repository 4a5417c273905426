"""The file that is inserted: its format, bytes and errors."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from io import BufferedReader, BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from tidemill.errors import BadInput
from tidemill.model.schema import Field
from tidemill.model.units import format_size
from tidemill.wire.refusals import TooLarge

MAX_LINE_BYTES = 16 << 20
"""The greatest length of a line of a text file."""


class Format(StrEnum):
    CSV = "csv"
    JSON_LINES = "jsonl"
    PARQUET = "parquet"


_NAMES = {
    "csv": Format.CSV,
    "jsonl": Format.JSON_LINES,
    "ndjson": Format.JSON_LINES,
    "json": Format.JSON_LINES,
    "parquet": Format.PARQUET,
}
_CHOICES = ", ".join(_NAMES)

_EXPECTED = {
    "BOOLEAN": "true or false",
    "TINYINT": "a whole number from -128 to 127",
    "SMALLINT": "a whole number from -32768 to 32767",
    "INT": "a whole number from -2147483648 to 2147483647",
    "BIGINT": "a whole number from -9223372036854775808 to 9223372036854775807",
    "FLOAT": "a number within its range",
    "DOUBLE": "a number within its range",
    "STRING": "UTF-8 text",
    "BINARY": "bytes, in text files as base64",
    "DATE": "a date from year 1 to 9999 like 2024-01-31",
    "TIMESTAMP": "a time from year 1 to 9999 like 2024-01-31T12:00:00Z, to the microsecond",
    "TIMESTAMP_LTZ": "a time from year 1 to 9999 like 2024-01-31T12:00:00Z, to the microsecond",
    "TIMESTAMP_NTZ": "a time from year 1 to 9999 like 2024-01-31T12:00:00 without a zone, to the microsecond",
}


@dataclass(frozen=True, slots=True)
class InputFile:
    """A readable regular file in a known format, with its size and time when it was opened; or the bytes of one."""

    data: Path | bytes
    name: str  # as shown to users
    format: Format
    size: int
    modified: int = 0  # nanoseconds
    gzipped: bool = False
    max_bytes: int | None = None  # the greatest size of its decoded rows; None: unlimited

    @classmethod
    def from_path(cls, path: Path, format: str | None, max_bytes: int | None = None) -> InputFile:
        with _translate_io_errors(path):
            status = path.stat()
        if S_ISDIR(status.st_mode):
            raise BadInput(f"{path} is a directory; insert one file at a time")
        if not S_ISREG(status.st_mode):
            raise BadInput(f"{path} is not a regular file; save the data in a file and insert that")
        is_gzipped = path.suffix == ".gz"
        kind = _detect_format(path, format)
        return cls(path, str(path), kind, status.st_size, status.st_mtime_ns, is_gzipped, max_bytes)

    @classmethod
    def from_bytes(cls, data: bytes, name: str, format: str) -> InputFile:
        return cls(data, name, Format(format), len(data))

    def open_raw(self) -> BufferedReader:
        return BufferedReader(BytesIO(self.data)) if isinstance(self.data, bytes) else self.data.open("rb")

    def map_bytes(self) -> memoryview:
        """All bytes, of which only those that are looked at are read."""
        if isinstance(self.data, bytes):
            return memoryview(self.data)
        with self.data.open("rb") as file:
            return memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))

    def compute_digest(self) -> str:
        with self._translate_errors(), self.open_raw() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @contextmanager
    def open_text(self) -> Iterator[tuple[BufferedReader, BufferedReader]]:
        """The decompressed bytes without byte order mark, and the raw file, whose position gives the progress."""
        with self._translate_errors(), self.open_raw() as raw, ExitStack() as stack:
            stream = raw
            if self.gzipped:
                stream = BufferedReader(stack.enter_context(gzip.GzipFile(fileobj=raw)))
            if stream.peek(3)[:3] == codecs.BOM_UTF8:
                stream.read(3)
            yield stream, raw

    def read_lines(self, stream: BufferedReader) -> Iterator[bytes]:
        """The lines of a text file. Only one is in memory, and none that is longer than `MAX_LINE_BYTES`."""
        for number, line in enumerate(iter(partial(stream.readline, MAX_LINE_BYTES + 1), b""), start=1):
            if len(line) > MAX_LINE_BYTES:
                raise self.build_error(f"line {number} is longer than {format_size(MAX_LINE_BYTES)}; split its rows")
            yield line

    def check_decoded_size(self, size: int) -> None:
        """Raise `TooLarge` if rows of this size exceed the limit."""
        if self.max_bytes is not None and size > self.max_bytes:
            limit = format_size(self.max_bytes)
            raise TooLarge(f"{self.name}: its rows take more than {limit}; insert them in parts. Nothing was inserted")

    def measure_progress(self, raw: BufferedReader) -> float:
        return raw.tell() / self.size if self.size else 1.0

    def check_unchanged(self) -> None:
        """Raise `BadInput` if the file has changed since its digest was computed."""
        assert isinstance(self.data, Path)
        with _translate_io_errors(self.data):
            status = self.data.stat()
        if (status.st_size, status.st_mtime_ns) != (self.size, self.modified):
            raise self.build_error("it changed while it was read; wait until it is complete and insert it again")

    def build_error(self, problem: str) -> BadInput:
        return BadInput(f"{self.name}: {problem}. Nothing was inserted")

    def build_row_error(self, row: int, problem: str) -> BadInput:
        return self.build_error(f"row {row} {problem}")

    def build_cell_error(self, row: int, field: Field, reason: str = "") -> BadInput:
        """An error about one value. It gives the position of the value, never the value itself."""
        hint = _EXPECTED.get(field.type)
        expected = f"{field.type} ({hint})" if hint else field.type
        return self.build_error(
            f"row {row}, column {field.name!r}: expected {expected}, but {reason or 'the value is invalid'}"
        )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            with _translate_io_errors(self.name):
                yield
        except (EOFError, zlib.error) as error:
            raise self.build_error(f"its compression is damaged ({error}); compress it again") from error


def _detect_format(path: Path, name: str | None) -> Format:
    if name is not None:
        if name.lower() not in _NAMES:
            raise BadInput(f"unknown format {name!r} for {path}; expected one of {_CHOICES}")
        return _NAMES[name.lower()]
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    detected = _NAMES.get(suffix.lstrip(".").lower())
    if detected is None or (detected is Format.PARQUET and path.suffix == ".gz"):
        raise BadInput(f"cannot detect the format of {path} from its name; specify one of: {_CHOICES}")
    return detected


@contextmanager
def _translate_io_errors(path: Path | str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {path}; check the path") from error
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}; check the file and its permissions") from error
