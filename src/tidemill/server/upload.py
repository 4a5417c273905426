"""Request bodies: limits on their sizes, and uploads, which are counted and decompressed as they are received."""

from __future__ import annotations

import asyncio
import re
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.errors import BadInput
from tidemill.processes.scratch import open_scratch
from tidemill.wire.refusals import TooLarge, UnknownFormat


class MemoryBudget:
    """A budget of bytes. A request larger than the budget is admitted alone. Used in one event loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        self._released = asyncio.Event()  # set on each release, and then replaced by a new event

    def has_space(self, size: int) -> bool:
        return not self._used or self._used + size <= self._size

    async def acquire_bytes(self, size: int) -> None:
        while not self.has_space(size):
            await self._released.wait()
        self._used += size

    def release_bytes(self, size: int) -> None:
        self._used -= size
        self._released.set()
        self._released = asyncio.Event()


MAX_JSON_DEPTH = 64
"""The greatest depth of a JSON document: far less than parsers and recursive functions can process."""

_JSON_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)


def is_nested_deeply(body: bytes) -> bool:
    """Whether a JSON text is nested deeper than `MAX_JSON_DEPTH`. Brackets in strings do not count.

    >>> is_nested_deeply(b"[" * 65), is_nested_deeply(b'{"a": "' + b"[" * 65 + b'"}'), is_nested_deeply(b"[{}]" * 65)
    (True, False, False)
    """
    if body.count(b"[") + body.count(b"{") <= MAX_JSON_DEPTH:
        return False
    steps = (_DEPTH_STEPS.get(found[0], 0) for found in _JSON_STRUCTURE.finditer(body))
    return any(depth > MAX_JSON_DEPTH for depth in accumulate(steps))


_DEPTH_STEPS = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}


def _check_depth(body: bytes) -> None:
    if is_nested_deeply(body):
        raise BadInput(f"the document is nested deeper than {MAX_JSON_DEPTH} levels; flatten it")


class BodyLimit:
    """Reads the body of a request before any other processing: up to a limit, in limited time, and without deep JSON.

    Inserts are excepted: they are processed as they are received.
    """

    def __init__(self, app: ASGIApp, *, limit: int, timeout: float) -> None:
        self._app = app
        self._limit = limit
        self._timeout = timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_http = scope["type"] == "http"
        if is_http and not (scope["method"] == "POST" and scope["path"].endswith(("/blocks", "/events"))):
            check_declared_size(Headers(scope=scope), self._limit)
            receive = await self._read_in_time(receive)
        await self._app(scope, receive, send)

    async def _read_in_time(self, receive: Receive) -> Receive:
        try:
            async with asyncio.timeout(self._timeout):
                messages = await self._read_body(receive)
        except TimeoutError as error:
            raise BadInput(f"the body did not arrive within {self._timeout:g} s; send it again") from error
        if body := b"".join(message.get("body", b"") for message in messages):
            await run_in_threadpool(_check_depth, body)
        replayed = iter(messages)

        async def replay_messages() -> Message:
            return next(replayed, None) or await receive()

        return replay_messages

    async def _read_body(self, receive: Receive) -> list[Message]:
        messages: list[Message] = []
        size, has_more = 0, True
        while has_more:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            has_more = message.get("more_body", False)
            if size > self._limit:
                raise build_too_large_error(self._limit)
        return messages


def check_declared_size(headers: Headers, limit: int) -> None:
    """Raise if the declared size of the request exceeds the limit."""
    declared = headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > len(str(limit)) + 1 or int(declared) > limit):
        raise build_too_large_error(limit)


def build_too_large_error(limit: int) -> TooLarge:
    return TooLarge(f"the request exceeds the limit of {limit} bytes; nothing was changed")


class UploadFormat(StrEnum):
    CSV = "csv"
    JSON_LINES = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"


FORMATS_BY_MEDIA_TYPE: Mapping[str, UploadFormat] = {
    "text/csv": UploadFormat.CSV,
    "application/csv": UploadFormat.CSV,
    "application/x-ndjson": UploadFormat.JSON_LINES,
    "application/jsonl": UploadFormat.JSON_LINES,
    "application/vnd.apache.parquet": UploadFormat.PARQUET,
    "application/vnd.apache.arrow.stream": UploadFormat.ARROW,
    "application/vnd.apache.arrow.file": UploadFormat.ARROW,
}
"""Formats by media type. File names are ignored."""

_CHUNK_BYTES = 1 << 20  # bytes that are written or decompressed at once: a decompression bomb is counted after each


def find_format(request: Request, requested: UploadFormat | None) -> UploadFormat:
    """The format of the parameter, else that of the media type."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media.startswith("multipart/"):
        raise UnknownFormat("forms are not accepted; send the file itself as the body")
    upload_format = requested or FORMATS_BY_MEDIA_TYPE.get(media)
    if upload_format is None:
        raise UnknownFormat(
            f"the media type is none of {', '.join(FORMATS_BY_MEDIA_TYPE)}; send one of them, or pass format="
        )
    return upload_format


@asynccontextmanager
async def receive_upload(request: Request, *, memory_limit: int, limit: int) -> AsyncIterator[bytes | Path]:
    """The decompressed body, inside the context: its bytes, or a file if it is larger than `memory_limit`.

    Raises `TooLarge` as soon as it exceeds `limit`.
    """
    check_declared_size(request.headers, limit)
    decompressor = _build_decompressor(request)
    with _UploadBuffer(memory_limit, limit) as buffer:
        async for chunk in _read_chunks(request, limit):
            if decompressor is None and buffer.can_stay_in_memory(chunk):
                buffer.add_chunks([chunk])
            else:
                await run_in_threadpool(
                    buffer.add_chunks, [chunk] if decompressor is None else decompressor.decompress_chunk(chunk)
                )
        if decompressor is not None:
            decompressor.finish()
        yield buffer.get_content()


def _build_decompressor(request: Request) -> GunzipStream | None:
    match request.headers.get("content-encoding", "identity").strip().lower():
        case "identity" | "":
            return None
        case "gzip" | "x-gzip":
            return GunzipStream()
        case _:
            raise UnknownFormat("the content encoding is unknown; send it uncompressed, or compressed with gzip")


async def _read_chunks(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The received bytes, in chunks large enough to process in another thread."""
    pending, size = bytearray(), 0
    async for chunk in request.stream():
        pending += chunk
        size += len(chunk)
        if size > limit:
            raise build_too_large_error(limit)
        if len(pending) >= _CHUNK_BYTES:
            yield bytes(pending)
            pending.clear()
    if pending:
        yield bytes(pending)


class _UploadBuffer:
    """The received bytes: in memory while they are few, then in a file; never more than the limit."""

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
            fits = self.can_stay_in_memory(piece)
            self._size += len(piece)
            if self._size > self._limit:
                raise build_too_large_error(self._limit)
            if fits:
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
            directory = self._opened.enter_context(tempfile.TemporaryDirectory(dir=open_scratch().path))
            path = Path(directory, "upload")
            self._file = self._opened.enter_context(path.open("wb"))
            self._file.write(self._memory)
        return self._file


def describe_body(description: str, *media_types: str) -> dict[str, Any]:
    """The OpenAPI description of a request whose body is a file."""
    content = {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in media_types}
    return {"requestBody": {"required": True, "description": description, "content": content}}


_GZIP = 16 + zlib.MAX_WBITS


class GunzipStream:
    """A gzip stream of one or several members.

    >>> import gzip
    >>> stream = GunzipStream()
    >>> b"".join(stream.decompress_chunk(gzip.compress(b"one ") + gzip.compress(b"two")))
    b'one two'
    >>> stream.finish()
    """

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._started = False

    def decompress_chunk(self, data: bytes) -> Iterator[bytes]:
        """The decompressed chunks of the next compressed bytes."""
        is_pending = bool(data)
        while is_pending:
            if self._member.eof:
                self._member = zlib.decompressobj(_GZIP)
            self._started = True
            try:
                chunk = self._member.decompress(data, _CHUNK_BYTES)
            except zlib.error as error:
                raise BadInput(f"the upload is not valid gzip ({error}). Nothing was inserted") from error
            yield chunk
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            # All input may be consumed, and decompress to more than one chunk.
            is_pending = bool(data) or (len(chunk) == _CHUNK_BYTES and not self._member.eof)

    def finish(self) -> None:
        if self._started and not self._member.eof:
            raise BadInput("the gzip upload is truncated. Nothing was inserted")
