"""New blocks of a channel on their way out: by webhook or e-mail, in their order, until they are taken.

A webhook's body is JSON lines: what the block is, then its rows. It is signed as notices are. `Tidemill-Block` and
`Tidemill-Part` stay the same when a part is sent again: whoever remembers the last one they took can drop it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tidemill.errors import Collected
from tidemill.ports.catalog import CatalogWriter
from tidemill.publish.mail import SmtpMailer
from tidemill.publish.webhook import post_body, sign_body

log = logging.getLogger("tidemill.app.deliveries")

_PAUSES = (1.0, 5.0, 30.0, 120.0, 600.0)  # seconds after the first failure, the second, and so on


@dataclass(frozen=True, slots=True)
class DeliveryPart:
    """Some rows of a block, as lines; `number` counts the parts of a block from 1."""

    channel: str
    seq: int
    number: int
    rows: int
    text: str


class BlockReceiver(Protocol):
    """Takes parts of blocks, or raises."""

    def send_part(self, part: DeliveryPart) -> None: ...


@dataclass(frozen=True, slots=True)
class BlockWebhook:
    """An address that takes rows."""

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
    """Somebody who gets rows by e-mail, as an attachment."""

    by: SmtpMailer

    def send_part(self, part: DeliveryPart) -> None:
        if not part.rows:
            return
        number = f"{part.channel}-{part.seq}-{part.number}"
        letter = self.by.build_message(f"{part.rows} new rows in {part.channel}", number)
        letter.set_content(f"Block {part.seq} of {part.channel}, part {part.number}: {part.rows} rows are attached.\n")
        letter.add_attachment(
            part.text.encode(), maintype="application", subtype="x-ndjson", filename=f"{number}.jsonl"
        )
        self.by.send_message(letter)


@dataclass(slots=True)
class BlockDelivery:
    """Of what comes into a channel from now on, to one receiver. `parts` gives those of the block after a position."""

    name: str
    channel: str
    to: BlockReceiver
    catalog: CatalogWriter
    parts: Callable[[int, int], Iterator[DeliveryPart]]
    clock: Callable[[], float] = time.monotonic
    _failed: int = 0
    _again: float = 0.0  # by the clock, when to try next

    def __call__(self) -> None:
        """Deliver all that is there; where one is not taken, those after it wait."""
        if self.clock() < self._again:
            return
        try:
            self._deliver_blocks()
            self._failed = 0
        except Exception as error:
            wait = _PAUSES[min(self._failed, len(_PAUSES) - 1)]
            self._failed, self._again = self._failed + 1, self.clock() + wait
            log.warning("%s did not take what is new in %s: %s; again in %g s", self.name, self.channel, error, wait)

    def _deliver_blocks(self) -> None:
        place = f"delivery:{self.name}:{self.channel}"
        head = self.catalog.read_channel(self.channel).head.seq
        at = self.catalog.find_consumer_offset(place)
        if at is None:  # what was there before anybody wanted it is not sent
            self.catalog.move_consumer_offset(place, None, head)
            return
        while at < head:
            self.catalog.move_consumer_offset(place, at, at := self._deliver_block(at, head))

    def _deliver_block(self, at: int, head: int) -> int:
        """Deliver the block after `at`; returns where it stands."""
        try:
            for part in self.parts(at, head):
                self.to.send_part(part)
                reached = part.seq
        except Collected as error:
            log.error("%s misses rows: %s", self.name, error)
            return head
        return reached
