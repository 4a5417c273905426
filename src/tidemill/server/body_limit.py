"""Limits on request bodies, individually and in total."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.wire.refusals import TooLarge


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


class BodyLimit:
    """Reads the body of a request before any other processing, up to a limit."""

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_upload(scope):
            check_declared_size(Headers(scope=scope), self._limit)
            receive = await self._read_body(receive)
        await self._app(scope, receive, send)

    async def _read_body(self, receive: Receive) -> Receive:
        messages: list[Message] = []
        size, has_more = 0, True
        while has_more:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            has_more = message.get("more_body", False)
            if size > self._limit:
                raise build_too_large_error(self._limit)
        replayed = iter(messages)

        async def replay_messages() -> Message:
            return next(replayed, None) or await receive()

        return replay_messages


def check_declared_size(headers: Headers, limit: int) -> None:
    """Raise if the declared size of the request exceeds the limit."""
    declared = headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > len(str(limit)) + 1 or int(declared) > limit):
        raise build_too_large_error(limit)


def build_too_large_error(limit: int) -> TooLarge:
    return TooLarge(f"the request exceeds the limit of {limit} bytes; nothing was changed")


def _is_upload(scope: Scope) -> bool:
    return bool(scope["method"] == "POST" and scope["path"].endswith(("/blocks", "/events")))
