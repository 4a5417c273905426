"""Deliveries as the settings want them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from tidemill.app.settings import ChannelDeliverySettings, DeliverySettings, MailDeliverySettings, MailSettings
from tidemill.encoding.block_rows import RowSelection, split_into_chunks
from tidemill.ports.catalog import CatalogWriter
from tidemill.publish import BlockDelivery, BlockMail, BlockReceiver, BlockWebhook, DeliveryPart, SmtpMailer
from tidemill.runtime.inspect.change_feed import find_next_block
from tidemill.runtime.runs.insert_batcher import InsertBatcher, SmallInsert

Opens = Callable[[str], BinaryIO]


def build_deliveries(
    wanted: Mapping[str, DeliverySettings], catalog: CatalogWriter, open: Opens, inserts: InsertBatcher
) -> list[BlockDelivery]:
    """`open` opens a file of a block."""
    return [_build_delivery(name, one, catalog, open, inserts) for name, one in wanted.items()]


def build_postbox(settings: MailSettings | MailDeliverySettings) -> SmtpMailer:
    return SmtpMailer(
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
    inserts: InsertBatcher

    def send_part(self, part: DeliveryPart) -> None:
        if not part.rows:
            return
        _, _, lines = part.text.partition("\n")
        key = f"delivery:{self.name}:{part.channel}/{part.seq}/{part.number}"
        (answer,) = self.inserts.insert_all([SmallInsert(self.channel, lines.encode(), "jsonl", key)])
        if isinstance(answer, Exception):
            raise answer


def _build_delivery(
    name: str, wanted: DeliverySettings, catalog: CatalogWriter, open: Opens, inserts: InsertBatcher
) -> BlockDelivery:
    selection = RowSelection.from_texts(",".join(wanted.columns), wanted.where)

    def read_parts(at: int, head: int) -> Iterator[DeliveryPart]:
        block = find_next_block(catalog, wanted.channel, at, head)
        for number, piece in enumerate(split_into_chunks(block, open, selection), start=1):
            yield DeliveryPart(block.channel, block.seq, number, len(piece.lines), piece.to_text())

    return BlockDelivery(name, wanted.channel, _build_receiver(name, wanted, inserts), catalog, read_parts)


def _build_receiver(name: str, wanted: DeliverySettings, inserts: InsertBatcher) -> BlockReceiver:
    match wanted:
        case MailDeliverySettings():
            return BlockMail(build_postbox(wanted))
        case ChannelDeliverySettings():
            return BlockInsert(name, wanted.to, inserts)
        case _:
            return BlockWebhook(wanted.url, wanted.secret)
