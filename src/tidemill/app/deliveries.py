"""Deliveries as the settings want them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from tidemill.app.settings import ChannelDelivery, DeliverySettings, MailDelivery, MailSettings
from tidemill.encoding.block_rows import Selection, pieces
from tidemill.ports.catalog import CatalogWriter
from tidemill.publish import BlockHook, BlockMail, Delivery, Part, Postbox, Takes
from tidemill.runtime.inspect.change_feed import following
from tidemill.runtime.runs.insert_batcher import Gatherer, Small

Opens = Callable[[str], BinaryIO]


def deliveries(
    wanted: Mapping[str, DeliverySettings], catalog: CatalogWriter, open: Opens, inserts: Gatherer
) -> list[Delivery]:
    """`open` opens a file of a block."""
    return [_delivery(name, one, catalog, open, inserts) for name, one in wanted.items()]


def post_of(settings: MailSettings | MailDelivery) -> Postbox:
    return Postbox(
        settings.host,
        settings.sender,
        settings.to,
        port=settings.port,
        starttls=settings.starttls,
        user=settings.user,
        password=settings.password,
    )


@dataclass(frozen=True, slots=True)
class BlockInsert:
    """An input channel that takes rows: those of a part once, however often it is sent."""

    name: str
    channel: str
    inserts: Gatherer

    def take(self, part: Part) -> None:
        if not part.rows:
            return
        _, _, lines = part.text.partition("\n")
        key = f"delivery:{self.name}:{part.channel}/{part.seq}/{part.number}"
        (answer,) = self.inserts.insert([Small(self.channel, lines.encode(), "jsonl", key)])
        if isinstance(answer, Exception):
            raise answer


def _delivery(name: str, wanted: DeliverySettings, catalog: CatalogWriter, open: Opens, inserts: Gatherer) -> Delivery:
    selection = Selection.parse(",".join(wanted.columns), wanted.where)

    def parts(at: int, head: int) -> Iterator[Part]:
        block = following(catalog, wanted.channel, at, head)
        for number, piece in enumerate(pieces(block, open, selection), start=1):
            yield Part(block.channel, block.seq, number, len(piece.lines), piece.text())

    return Delivery(name, wanted.channel, _receiver(name, wanted, inserts), catalog, parts)


def _receiver(name: str, wanted: DeliverySettings, inserts: Gatherer) -> Takes:
    match wanted:
        case MailDelivery():
            return BlockMail(post_of(wanted))
        case ChannelDelivery():
            return BlockInsert(name, wanted.to, inserts)
        case _:
            return BlockHook(wanted.url, wanted.secret)
