"""Pushing as a client does it: nothing is forgotten before it is acknowledged, and what breaks is sent again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager

from tidemill.errors import TidemillError
from tidemill.wire.client_sockets import ConnectionBroken, Socket
from tidemill.wire.http_status import build_error, find_status
from tidemill.wire.push_messages import PushReplyDocument, parse_reply, render_message
from tidemill.wire.refusals import Unreachable

WINDOW = 1000
"""Messages that are sent before the first of them is acknowledged."""
_TRIES = 8  # that fail one after the other, before it is given up
_LATER = 409  # errors of this status, and from 500 on, may pass

Open = Callable[[], AbstractContextManager[Socket]]
_Numbered = tuple[int, bytes]


class PushClient:
    """Pushes one producer's messages, over as many connections as it takes."""

    def __init__(self, open: Open, sleep: Callable[[float], None]) -> None:
        self._open = open
        self._sleep = sleep
        self._sent: deque[_Numbered] = deque()  # and not acknowledged
        self.last: int | None = None  # the last message that is known to be in the channel

    def push(self, messages: Iterable[bytes], first: int | None = None) -> int:
        """Push these, the first of them under the number `first`; else they follow what the channel has.

        Returns the number of the last message when all are durable.
        """
        waiting, tries = iter(messages), 0
        numbered: Iterator[_Numbered] | None = None
        while True:
            before = self.last
            try:
                with self._open() as socket:
                    self._resume_session(socket)
                    if numbered is None:
                        numbered = enumerate(waiting, first if first is not None else (self.last or 0) + 1)
                    return self._send_all(socket, numbered)
            except ConnectionBroken as error:
                tries = 1 if self.last != before else tries + 1
                if tries > _TRIES:
                    raise Unreachable(f"the server does not take what is pushed: {error}; is it up?") from error
                self._sleep(min(2.0**tries / 8, 10.0))

    def _resume_session(self, socket: Socket) -> None:
        self._handle_reply(parse_reply(socket.recv()))
        for number, lines in self._sent:
            socket.send(render_message(number, lines))

    def _send_all(self, socket: Socket, numbered: Iterator[_Numbered]) -> int:
        for number, lines in numbered:
            self._sent.append((number, lines))  # before it is sent: who breaks in between sends it again
            socket.send(render_message(number, lines))
            self._await_replies(socket, WINDOW)
        self._await_replies(socket, 1)
        return self.last or 0

    def _await_replies(self, socket: Socket, most: int) -> None:
        """Hear what there is to hear, and wait for more while `most` or more messages are not acknowledged."""
        while True:
            try:
                said = socket.recv(timeout=None if len(self._sent) >= most else 0)
            except TimeoutError:
                return
            self._handle_reply(parse_reply(said))
            if not self._sent:
                return

    def _handle_reply(self, said: PushReplyDocument) -> None:
        if said.error is not None:
            raise _classify_error(build_error(said.error.kind, said.error.message))
        reached = said.last if said.acknowledged is None else said.acknowledged
        self.last = max(self.last or 0, reached or 0)
        while self._sent and self._sent[0][0] <= self.last:
            self._sent.popleft()


def _classify_error(error: TidemillError) -> Exception:
    """What may pass is tried again; what was refused is the caller's."""
    status = find_status(type(error))
    return ConnectionBroken(str(error)) if status == _LATER or status >= 500 else error
