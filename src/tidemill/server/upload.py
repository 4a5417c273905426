"""What somebody uploads: its format, and its bytes, counted as they come in."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from tidemill.server.body_limit import check_declared, too_large
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


@asynccontextmanager
async def received(request: Request, *, small: int, limit: int) -> AsyncIterator[bytes | Path]:
    """The body, unpacked, for as long as this is entered: its bytes, or a file if there are more than `small`.

    Raises `TooLarge` as soon as there is more than `limit` of it.
    """
    check_declared(request.headers, limit)
    unpack = _unpacker(request)
    with _Held(small, limit) as held:
        async for packed in _chunks(request, limit):
            if unpack is None and held.stays_small(packed):
                held.add([packed])
            else:
                await run_in_threadpool(held.add, [packed] if unpack is None else unpack.unpacked(packed))
        if unpack is not None:
            unpack.finish()
        yield held.all()


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


class _Held:
    """What has come in: in memory while there is little of it, then in a file; never more than so much."""

    def __init__(self, small: int, limit: int) -> None:
        self._small = small
        self._limit = limit
        self._memory = bytearray()
        self._size = 0
        self._file: BinaryIO | None = None
        self._opened = ExitStack()

    def __enter__(self) -> _Held:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def stays_small(self, piece: bytes) -> bool:
        return self._file is None and self._size + len(piece) <= self._small

    def add(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            small = self.stays_small(piece)
            self._size += len(piece)
            if self._size > self._limit:
                raise too_large(self._limit)
            if small:
                self._memory += piece
            else:
                self._on_disk().write(piece)

    def all(self) -> bytes | Path:
        if self._file is None:
            return bytes(self._memory)
        self._file.flush()
        return Path(self._file.name)

    def _on_disk(self) -> BinaryIO:
        if self._file is None:
            directory = self._opened.enter_context(tempfile.TemporaryDirectory(prefix="tidemill-upload-"))
            path = Path(directory, "upload")
            self._file = self._opened.enter_context(path.open("wb"))
            self._file.write(self._memory)
        return self._file
