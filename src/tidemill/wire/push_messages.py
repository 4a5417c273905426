"""What goes over the sockets through which events are pushed.

A message is text: its number, a line break, and events as JSON lines. The server answers with JSON documents: first
`{"producer": …, "last": 41}`, then `{"acknowledged": 45}` whenever all messages up to 45 are durable, and at the end
perhaps `{"error": {"kind": …, "message": …}, "number": 46}`: message 46 was refused, and none after it was taken.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from tidemill.errors import BadInput
from tidemill.wire.schemas import ErrorDetailDocument, ResponseDocument

COME_BACK, REFUSED, FAULT = 1001, 1008, 1011
"""Why the server closes a socket: its time is up, a message cannot be used, or it could not be taken just now."""

_DIGITS = 18


class PushDocument(ResponseDocument):
    """The answer to a push over HTTP."""

    acknowledged: int  # the message's number
    repeated: bool


class PushReplyDocument(BaseModel):
    """One of the server's documents."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    last: int | None = None
    acknowledged: int | None = None
    error: ErrorDetailDocument | None = None
    number: int | None = None


def parse_message(message: bytes) -> tuple[int, bytes]:
    """The number and the lines of a message.

    >>> parse_message(b'7\\n{"id": 1}\\n{"id": 2}')
    (7, b'{"id": 1}\\n{"id": 2}')
    """
    head, _, lines = message.partition(b"\n")
    if not head.isdigit() or len(head) > _DIGITS:
        raise BadInput(
            f"a message begins with its number on a line of its own, and then come events as JSON lines; "
            f"found {head[:40].decode(errors='replace')!r}"
        )
    return int(head), lines


def render_message(number: int, lines: bytes) -> str:
    return f"{number}\n{lines.decode()}"


def parse_reply(text: str | bytes) -> PushReplyDocument:
    return PushReplyDocument.model_validate_json(text)
