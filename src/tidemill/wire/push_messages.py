"""The messages of the push protocol over WebSockets.

A message is text: its number, a line break, and events as JSON lines. The server replies with JSON documents: first
`{"producer": …, "last": 41}`, then `{"acknowledged": 45}` whenever all messages up to 45 are durable, and at the end
possibly `{"error": {"kind": …, "message": …}, "number": 46}`: message 46 was rejected, and all after it were ignored.
"""

from pydantic import BaseModel, ConfigDict

from tidemill.errors import BadInput
from tidemill.wire.document import ResponseDocument
from tidemill.wire.schemas import ErrorDetailDocument

CLOSE_GOING_AWAY, CLOSE_POLICY_VIOLATION, CLOSE_INTERNAL_ERROR = 1001, 1008, 1011
"""Close codes of the server: the time limit is reached, a message is invalid, or a transient failure."""

_MAX_DIGITS = 18


class PushDocument(ResponseDocument):
    """The response to a push over HTTP."""

    acknowledged: int  # the message's number
    repeated: bool


class PushReplyDocument(BaseModel):
    """A reply of the server."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    producer: str | None = None
    last: int | None = None
    acknowledged: int | None = None
    error: ErrorDetailDocument | None = None
    number: int | None = None


def parse_message(message: bytes) -> tuple[int, bytes]:
    """The number and the lines of a message.

    >>> parse_message(b'7\\n{"id": 1}\\n{"id": 2}')
    (7, b'{"id": 1}\\n{"id": 2}')
    """
    first_line, _, lines = message.partition(b"\n")
    if not first_line.isdigit() or len(first_line) > _MAX_DIGITS:
        raise BadInput(
            f"a message begins with its number on a separate line, followed by events as JSON lines; "
            f"found {first_line[:40].decode(errors='replace')!r}"
        )
    return int(first_line), lines


def render_message(number: int, lines: bytes) -> str:
    return f"{number}\n{lines.decode()}"


def render_reply(reply: PushReplyDocument) -> str:
    return reply.model_dump_json(exclude_none=True)
