"""Request bodies of inserts, streamed while they are read or encoded."""

import base64
import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tidemill.errors import BadInput

_CHUNK_BYTES = 1 << 20
_TYPES = {
    "csv": "text/csv",
    "jsonl": "application/x-ndjson",
    "ndjson": "application/x-ndjson",
    "json": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
    "arrows": "application/vnd.apache.arrow.stream",
}


@dataclass(frozen=True, slots=True)
class UploadBody:
    """The headers that describe the content, and its bytes, which can be read once."""

    headers: dict[str, str]
    content: Iterator[bytes]


def build_upload(data: str | Path | Iterable[Mapping[str, Any]], format: str | None = None) -> UploadBody:
    """A file by its path, or rows as JSON lines.

    >>> b"".join(build_upload([{"id": 1, "on": dt.date(2026, 5, 1)}]).content)
    b'{"id": 1, "on": "2026-05-01"}\\n'
    """
    if isinstance(data, str | Path):
        return _build_file_upload(Path(data), format)
    if hasattr(data, "columns") or not isinstance(data, Iterable):  # iterating over a table yields its columns
        raise BadInput(
            f"expected the path of a file, or rows as mappings, found a {type(data).__name__}; write it to a Parquet "
            "file and insert that, or insert its rows: table.to_pylist(), frame.to_dict('records')"
        )
    return UploadBody({"Content-Type": _TYPES["jsonl"]}, _encode_rows(data))


def _build_file_upload(path: Path, format: str | None) -> UploadBody:
    """A file upload; the default format is that of the name, such as `articles.csv.gz`."""
    suffixes = [suffix.lstrip(".").lower() for suffix in path.suffixes]
    gzipped = suffixes[-1:] == ["gz"]
    format_suffixes = suffixes[:-1] if gzipped else suffixes
    media_type = _TYPES.get((format or (format_suffixes[-1] if format_suffixes else "")).lower())
    if media_type is None:
        raise BadInput(f"cannot detect the format of {path}; specify one of: {', '.join(_TYPES)}")
    headers = {"Content-Type": media_type} | ({"Content-Encoding": "gzip"} if gzipped else {})
    return UploadBody(headers, _read_chunks(path))


def _read_chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}; check the path") from error


def _encode_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """The rows as JSON lines in chunks, to avoid one packet per line."""
    buffer = bytearray()
    for row in rows:
        buffer += encode_row(row)
        buffer += b"\n"
        if len(buffer) >= _CHUNK_BYTES:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


def encode_row(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, default=_encode_value, ensure_ascii=False, allow_nan=False).encode()


def _encode_value(value: object) -> str:
    """Values that JSON has no type for, as `insert` parses them."""
    match value:
        case dt.datetime() | dt.date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            raise BadInput(f"a {type(value).__name__} cannot be sent as JSON; write the rows to a Parquet file")
