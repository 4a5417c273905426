"""Deliveries of a channel's new blocks by webhook or e-mail, in order, repeated until they are accepted.

A webhook's body is JSON lines: a header of the block, then its rows. It is signed as notices are. `Tidemill-Block` and
`Tidemill-Part` stay the same when a part is sent again, so that a receiver can deduplicate.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tidemill.errors import GarbageCollected
from tidemill.ports.catalog import Catalog
from tidemill.publish.mail import SmtpMailer
from tidemill.publish.webhook import post_body, sign_body

log = logging.getLogger("tidemill.app.serving")

_PAUSES = (1.0, 5.0, 30.0, 120.0, 600.0)  # seconds after the first failure, the second, and so on


@dataclass(frozen=True, slots=True)
class DeliveryPart:
    """Some rows of a block as lines; `number` counts the parts of a block from 1."""

    channel: str
    seq: int
    number: int
    rows: int
    text: str


class BlockReceiver(Protocol):
    """Accepts parts of blocks, or raises."""

    def send_part(self, part: DeliveryPart) -> None: ...


@dataclass(frozen=True, slots=True)
class BlockWebhook:
    url: str
    secret: str = field(repr=False)
    clock: Callable[[], float] = time.time

    def send_part(self, part: DeliveryPart) -> None:
        body = part.text.encode()
        headers = {
            "Content-Type": "application/x-ndjson",
            "Tidemill-Block": f"{part.channel}/{part.seq}",
            "Tidemill-Part": str(part.number),
            "Tidemill-Signature": sign_body(self.secret, body, int(self.clock())),
        }
        post_body(self.url, body, headers)


@dataclass(frozen=True, slots=True)
class BlockMail:
    """A recipient of rows by e-mail, as an attachment."""

    mailer: SmtpMailer

    def send_part(self, part: DeliveryPart) -> None:
        if not part.rows:
            return
        number = f"{part.channel}-{part.seq}-{part.number}"
        message = self.mailer.build_message(f"{part.rows} new rows in {part.channel}", number)
        message.set_content(f"Block {part.seq} of {part.channel}, part {part.number}: {part.rows} rows are attached.\n")
        message.add_attachment(
            part.text.encode(), maintype="application", subtype="x-ndjson", filename=f"{number}.jsonl"
        )
        self.mailer.send_message(message)


@dataclass(slots=True)
class BlockDelivery:
    """Delivers new blocks of a channel to one receiver.

    `read_parts` returns the parts of the block after a position.
    """

    name: str
    channel: str
    receiver: BlockReceiver
    catalog: Catalog
    read_parts: Callable[[int, int], Iterator[DeliveryPart]]
    clock: Callable[[], float] = time.monotonic
    _failures: int = 0
    _next_attempt: float = 0.0  # the time of the next attempt, by the clock

    def __call__(self) -> None:
        """Deliver all new blocks in order; after a failure the rest waits for a back-off."""
        if self.clock() < self._next_attempt:
            return
        try:
            self._deliver_blocks()
            self._failures = 0
        except Exception as error:
            pause = _PAUSES[min(self._failures, len(_PAUSES) - 1)]
            self._failures, self._next_attempt = self._failures + 1, self.clock() + pause
            log.warning("%s did not accept blocks of %s: %s; retry in %g s", self.name, self.channel, error, pause)

    def _deliver_blocks(self) -> None:
        consumer = f"delivery:{self.name}:{self.channel}"
        head = self.catalog.channels.read(self.channel).head.seq
        offset = self.catalog.events.find_consumer_offset(consumer)
        if offset is None:  # blocks from before the delivery was configured are not sent
            self.catalog.events.move_consumer_offset(consumer, None, head)
            return
        while offset < head:
            self.catalog.events.move_consumer_offset(consumer, offset, offset := self._deliver_block(offset, head))

    def _deliver_block(self, offset: int, head: int) -> int:
        """Deliver the block after `offset`; returns its sequence number."""
        try:
            for part in self.read_parts(offset, head):
                self.receiver.send_part(part)
                seq = part.seq
        except GarbageCollected as error:
            log.error("%s misses rows: %s", self.name, error)
            return head
        return seq
