"""The push client: messages are kept until they are acknowledged, and sent again after a broken connection."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager

from tidemill.wire.client_sockets import ConnectionBroken, Socket, classify_refusal
from tidemill.wire.push_messages import PushReplyDocument, render_message
from tidemill.wire.refusals import Unreachable

MAX_UNACKNOWLEDGED = 1000
"""The greatest number of unacknowledged messages."""
_MAX_ATTEMPTS = 8  # consecutive failures before the client gives up
_CONFLICT = 409  # this status may be transient

SocketOpener = Callable[[], AbstractContextManager[Socket]]
_Numbered = tuple[int, bytes]


class PushClient:
    """Pushes one producer's messages, and reconnects as needed."""

    def __init__(self, open: SocketOpener, sleep: Callable[[float], None]) -> None:
        self._open = open
        self._sleep = sleep
        self._sent: deque[_Numbered] = deque()  # and not acknowledged
        self.last: int | None = None  # the last message known to be committed

    def push(self, messages: Iterable[bytes], first: int | None = None) -> int:
        """Push messages numbered from `first` on; the default is the number after the last committed message.

        Returns the number of the last message when all are durable.
        """
        pending, attempts = iter(messages), 0
        numbered: Iterator[_Numbered] | None = None
        while True:
            before = self.last
            try:
                with self._open() as socket:
                    self._resume_session(socket)
                    if numbered is None:
                        numbered = enumerate(pending, first if first is not None else (self.last or 0) + 1)
                    return self._send_all(socket, numbered)
            except ConnectionBroken as error:
                attempts = 1 if self.last != before else attempts + 1
                if attempts > _MAX_ATTEMPTS:
                    raise Unreachable(f"the server does not accept messages: {error}; is it running?") from error
                self._sleep(min(2.0**attempts / 8, 10.0))

    def _resume_session(self, socket: Socket) -> None:
        self._handle_reply(socket.recv())
        for number, lines in self._sent:
            socket.send(render_message(number, lines))

    def _send_all(self, socket: Socket, numbered: Iterator[_Numbered]) -> int:
        for number, lines in numbered:
            self._sent.append((number, lines))  # before sending: a break in between causes a resend
            socket.send(render_message(number, lines))
            self._await_replies(socket, MAX_UNACKNOWLEDGED)
        self._await_replies(socket, 1)
        return self.last or 0

    def _await_replies(self, socket: Socket, limit: int) -> None:
        """Handle received replies, and wait for more while `limit` or more messages are not acknowledged."""
        while True:
            try:
                reply = socket.recv(timeout=None if len(self._sent) >= limit else 0)
            except TimeoutError:
                return
            self._handle_reply(reply)
            if not self._sent:
                return

    def _handle_reply(self, text: str | bytes) -> None:
        reply = PushReplyDocument.model_validate_json(text)
        if reply.error is not None:
            raise classify_refusal(reply.error, _CONFLICT)
        acknowledged = reply.last if reply.acknowledged is None else reply.acknowledged
        self.last = max(self.last or 0, acknowledged or 0)
        while self._sent and self._sent[0][0] <= self.last:
            self._sent.popleft()
