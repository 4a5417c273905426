"""Following as a client does it: each block once and whole, over as many connections as it takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from tidemill.errors import TidemillError
from tidemill.wire.client_sockets import ConnectionBroken, Socket
from tidemill.wire.http_status import build_error, find_status
from tidemill.wire.push_messages import parse_reply
from tidemill.wire.refusals import Unreachable
from tidemill.wire.schemas import ResponseDocument

_TRIES = 8  # that fail one after the other, before it is given up

OpenAfter = Callable[[int | None], AbstractContextManager[Socket]]


class BlockRowsDocument(ResponseDocument):
    """The rows of one block, as it changes its channel: `kind` is base if they are the whole content."""

    block: int  # its sequence number: go on after it
    kind: str
    updates: str
    rows: list[dict[str, Any]]


def subscribe_blocks(open: OpenAfter, sleep: Callable[[float], None], after: int | None) -> Iterator[BlockRowsDocument]:
    """Blocks after a position, or from now on; it never ends by itself."""
    at, tries = after, 0
    while True:
        try:
            with open(at) as socket:
                at = _parse_start(str(socket.recv()))
                for block in _receive_blocks(socket):
                    at, tries = block.block, 0
                    yield block
        except ConnectionBroken as error:
            tries += 1
            if tries > _TRIES:
                raise Unreachable(f"the server does not say what comes: {error}; is it up?") from error
            sleep(0.0 if tries == 1 else min(2.0**tries / 8, 10.0))  # the first time, its time may have been up


def _parse_start(text: str) -> int:
    return int(json.loads(text)["after"])


def _receive_blocks(socket: Socket) -> Iterator[BlockRowsDocument]:
    rows: list[dict[str, Any]] = []
    while True:
        head, *lines = str(socket.recv()).split("\n")
        said = parse_reply(head)
        if said.error is not None:
            raise _classify_error(build_error(said.error.kind, said.error.message))
        about = json.loads(head)
        rows += map(json.loads, lines)
        if not about["more"]:
            yield BlockRowsDocument(block=about["block"], kind=about["kind"], updates=about["updates"], rows=rows)
            rows = []


def _classify_error(error: TidemillError) -> Exception:
    return ConnectionBroken(str(error)) if find_status(type(error)) >= 500 else error
