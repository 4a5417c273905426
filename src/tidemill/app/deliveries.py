"""Construction of deliveries from the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from tidemill.app.settings import ChannelDeliverySettings, DeliverySettings, MailDeliverySettings, MailSettings
from tidemill.encoding.block_rows import RowSelection, split_into_chunks
from tidemill.ports.catalog import Catalog
from tidemill.publish import BlockDelivery, BlockMail, BlockReceiver, BlockWebhook, DeliveryPart, SmtpMailer
from tidemill.runtime.inspect.change_feed import find_next_block
from tidemill.runtime.runs.insert_batcher import InsertBatcher, SmallInsert

FileOpener = Callable[[str], BinaryIO]


def build_deliveries(
    deliveries: Mapping[str, DeliverySettings], catalog: Catalog, open: FileOpener, inserts: InsertBatcher
) -> list[BlockDelivery]:
    """The deliveries of the settings; `open` opens a file of a block."""
    return [_build_delivery(name, settings, catalog, open, inserts) for name, settings in deliveries.items()]


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
    """Inserts delivered rows into an input channel, each part once, even if it is sent again."""

    name: str
    channel: str
    inserts: InsertBatcher

    def send_part(self, part: DeliveryPart) -> None:
        if not part.rows:
            return
        _, _, lines = part.text.partition("\n")
        key = f"delivery:{self.name}:{part.channel}/{part.seq}/{part.number}"
        (result,) = self.inserts.insert_all([SmallInsert(self.channel, lines.encode(), "jsonl", key)])
        if isinstance(result, Exception):
            raise result


def _build_delivery(
    name: str, settings: DeliverySettings, catalog: Catalog, open: FileOpener, inserts: InsertBatcher
) -> BlockDelivery:
    selection = RowSelection.from_texts(",".join(settings.columns), settings.where)

    def read_parts(since: int, head: int) -> Iterator[DeliveryPart]:
        block = find_next_block(catalog.blocks, settings.channel, since, head)
        for number, chunk in enumerate(split_into_chunks(block, open, selection), start=1):
            yield DeliveryPart(block.channel, block.seq, number, len(chunk.lines), chunk.to_text())

    return BlockDelivery(name, settings.channel, _build_receiver(name, settings, inserts), catalog, read_parts)


def _build_receiver(name: str, settings: DeliverySettings, inserts: InsertBatcher) -> BlockReceiver:
    match settings:
        case MailDeliverySettings():
            return BlockMail(build_postbox(settings))
        case ChannelDeliverySettings():
            return BlockInsert(name, settings.to, inserts)
        case _:
            return BlockWebhook(settings.url, settings.secret)
