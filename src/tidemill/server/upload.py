"""What somebody uploads: its format, and the file into which it is saved while it is counted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from tidemill.server.bodies import check_declared, too_large
from tidemill.server.gunzip import Gunzip
from tidemill.wire.refusals import UnknownFormat


class Format(StrEnum):
    CSV = "csv"
    JSON_LINES = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"


TYPES: Mapping[str, Format] = {
    "text/csv": Format.CSV,
    "application/csv": Format.CSV,
    "application/x-ndjson": Format.JSON_LINES,
    "application/jsonl": Format.JSON_LINES,
    "application/vnd.apache.parquet": Format.PARQUET,
    "application/vnd.apache.arrow.stream": Format.ARROW,
    "application/vnd.apache.arrow.file": Format.ARROW,
}
"""By media type. Names of files are never looked at."""

_AT_ONCE = 1 << 20  # bytes that are written in one go


def format_of(request: Request, said: Format | None) -> Format:
    """As the parameter says, else the media type."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media.startswith("multipart/"):
        raise UnknownFormat("forms are not taken; send the file itself as the body")
    found = said or TYPES.get(media)
    if found is None:
        raise UnknownFormat(f"the media type is none of {', '.join(TYPES)}; send one of them, or say format=")
    return found


async def save(request: Request, path: Path, limit: int) -> None:
    """Write the body into a file, unpacked; raises `TooLarge` as soon as there is more than `limit` of it."""
    check_declared(request.headers, limit)
    unpack = _unpacker(request)
    with path.open("wb") as file:
        writing = _Counted(file, limit)
        async for packed in _chunks(request, limit):
            await run_in_threadpool(writing.add, [packed] if unpack is None else unpack.unpacked(packed))
    if unpack is not None:
        unpack.finish()


def _unpacker(request: Request) -> Gunzip | None:
    match request.headers.get("content-encoding", "identity").strip().lower():
        case "identity" | "":
            return None
        case "gzip" | "x-gzip":
            return Gunzip()
        case _:
            raise UnknownFormat("the content encoding is unknown; send it as it is, or packed with gzip")


async def _chunks(request: Request, limit: int) -> AsyncIterator[bytes]:
    """What comes in, in pieces that are worth a switch to another thread."""
    kept, size = bytearray(), 0
    async for chunk in request.stream():
        kept += chunk
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        if len(kept) >= _AT_ONCE:
            yield bytes(kept)
            kept.clear()
    if kept:
        yield bytes(kept)


class _Counted:
    """A file that takes no more than so much."""

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file = file
        self._limit = limit
        self._size = 0

    def add(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self._size += len(piece)
            if self._size > self._limit:
                raise too_large(self._limit)
            self._file.write(piece)
