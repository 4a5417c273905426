"""The subscription client: receives each block once and complete, and reconnects as needed."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from tidemill.wire.client_sockets import ConnectionBroken, Socket, classify_refusal
from tidemill.wire.document import ResponseDocument
from tidemill.wire.push_messages import PushReplyDocument
from tidemill.wire.refusals import Unreachable

_MAX_ATTEMPTS = 8  # consecutive failures before the client gives up

SocketOpenerAfter = Callable[[int | None], AbstractContextManager[Socket]]


class SubscriptionDocument(ResponseDocument):
    """The first message of a subscription."""

    channel: str
    after: int


class BlockHeaderDocument(ResponseDocument):
    """The first line of a message; the rows follow, one per line."""

    block: int
    kind: str
    updates: str
    more: bool  # the next message has more rows of the same block


class BlockRowsDocument(ResponseDocument):
    """The rows of one block; `kind` is base if they are the full content, delta if they change it."""

    block: int  # its sequence number, to continue after it
    kind: str
    updates: str
    rows: list[dict[str, Any]]


def subscribe_blocks(
    open: SocketOpenerAfter, sleep: Callable[[float], None], after: int | None
) -> Iterator[BlockRowsDocument]:
    """Blocks after a position, or from now on; the iterator is endless."""
    offset, attempts = after, 0
    while True:
        try:
            with open(offset) as socket:
                offset = SubscriptionDocument.model_validate_json(socket.recv()).after
                for block in _receive_blocks(socket):
                    offset, attempts = block.block, 0
                    yield block
        except ConnectionBroken as error:
            attempts += 1
            if attempts > _MAX_ATTEMPTS:
                raise Unreachable(f"the server does not send blocks: {error}; is it running?") from error
            # The first break may be the server's time limit.
            sleep(0.0 if attempts == 1 else min(2.0**attempts / 8, 10.0))


def _receive_blocks(socket: Socket) -> Iterator[BlockRowsDocument]:
    rows: list[dict[str, Any]] = []
    while True:
        first_line, *lines = str(socket.recv()).split("\n")
        reply = PushReplyDocument.model_validate_json(first_line)
        if reply.error is not None:
            raise classify_refusal(reply.error)
        header = BlockHeaderDocument.model_validate_json(first_line)
        rows += map(json.loads, lines)
        if not header.more:
            yield BlockRowsDocument(block=header.block, kind=header.kind, updates=header.updates, rows=rows)
            rows = []
