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

from tidemill.server.body_limit import build_too_large_error, check_declared_size
from tidemill.server.gunzip import GunzipStream
from tidemill.wire.refusals import UnknownFormat


class UploadFormat(StrEnum):
    CSV = "csv"
    JSON_LINES = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"


TYPES: Mapping[str, UploadFormat] = {
    "text/csv": UploadFormat.CSV,
    "application/csv": UploadFormat.CSV,
    "application/x-ndjson": UploadFormat.JSON_LINES,
    "application/jsonl": UploadFormat.JSON_LINES,
    "application/vnd.apache.parquet": UploadFormat.PARQUET,
    "application/vnd.apache.arrow.stream": UploadFormat.ARROW,
    "application/vnd.apache.arrow.file": UploadFormat.ARROW,
}
"""By media type. Names of files are never looked at."""

_AT_ONCE = 1 << 20  # bytes that are written in one go


def find_format(request: Request, said: UploadFormat | None) -> UploadFormat:
    """As the parameter says, else the media type."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media.startswith("multipart/"):
        raise UnknownFormat("forms are not taken; send the file itself as the body")
    found = said or TYPES.get(media)
    if found is None:
        raise UnknownFormat(f"the media type is none of {', '.join(TYPES)}; send one of them, or say format=")
    return found


@asynccontextmanager
async def receive_upload(request: Request, *, small: int, limit: int) -> AsyncIterator[bytes | Path]:
    """The body, unpacked, for as long as this is entered: its bytes, or a file if there are more than `small`.

    Raises `TooLarge` as soon as there is more than `limit` of it.
    """
    check_declared_size(request.headers, limit)
    unpack = _build_decompressor(request)
    with _UploadBuffer(small, limit) as held:
        async for packed in _read_chunks(request, limit):
            if unpack is None and held.can_stay_in_memory(packed):
                held.add_chunks([packed])
            else:
                await run_in_threadpool(
                    held.add_chunks, [packed] if unpack is None else unpack.decompress_chunk(packed)
                )
        if unpack is not None:
            unpack.finish()
        yield held.get_content()


def _build_decompressor(request: Request) -> GunzipStream | None:
    match request.headers.get("content-encoding", "identity").strip().lower():
        case "identity" | "":
            return None
        case "gzip" | "x-gzip":
            return GunzipStream()
        case _:
            raise UnknownFormat("the content encoding is unknown; send it as it is, or packed with gzip")


async def _read_chunks(request: Request, limit: int) -> AsyncIterator[bytes]:
    """What comes in, in pieces that are worth a switch to another thread."""
    kept, size = bytearray(), 0
    async for chunk in request.stream():
        kept += chunk
        size += len(chunk)
        if size > limit:
            raise build_too_large_error(limit)
        if len(kept) >= _AT_ONCE:
            yield bytes(kept)
            kept.clear()
    if kept:
        yield bytes(kept)


class _UploadBuffer:
    """What has come in: in memory while there is little of it, then in a file; never more than so much."""

    def __init__(self, small: int, limit: int) -> None:
        self._small = small
        self._limit = limit
        self._memory = bytearray()
        self._size = 0
        self._file: BinaryIO | None = None
        self._opened = ExitStack()

    def __enter__(self) -> _UploadBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def can_stay_in_memory(self, piece: bytes) -> bool:
        return self._file is None and self._size + len(piece) <= self._small

    def add_chunks(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            small = self.can_stay_in_memory(piece)
            self._size += len(piece)
            if self._size > self._limit:
                raise build_too_large_error(self._limit)
            if small:
                self._memory += piece
            else:
                self._open_file().write(piece)

    def get_content(self) -> bytes | Path:
        if self._file is None:
            return bytes(self._memory)
        self._file.flush()
        return Path(self._file.name)

    def _open_file(self) -> BinaryIO:
        if self._file is None:
            directory = self._opened.enter_context(tempfile.TemporaryDirectory(prefix="tidemill-upload-"))
            path = Path(directory, "upload")
            self._file = self._opened.enter_context(path.open("wb"))
            self._file.write(self._memory)
        return self._file
