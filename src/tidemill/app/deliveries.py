"""Construction of deliveries from the settings."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from tidemill.app import settings
from tidemill.encoding.block_rows import RowSelection, split_into_chunks
from tidemill.ports.catalog import Catalog
from tidemill.publish.blocks import BlockDelivery, BlockMail, BlockReceiver, BlockWebhook, DeliveryPart
from tidemill.publish.mail import SmtpMailer
from tidemill.runtime.inspect.change_feed import find_next_block
from tidemill.runtime.runs.insert_batcher import InsertBatcher, SmallInsert

FileOpener = Callable[[str], BinaryIO]


def build_deliveries(
    deliveries: Mapping[str, settings.DeliverySettings], catalog: Catalog, open: FileOpener, inserts: InsertBatcher
) -> list[BlockDelivery]:
    """The deliveries of the settings; `open` opens a file of a block."""
    return [_build_delivery(name, delivery, catalog, open, inserts) for name, delivery in deliveries.items()]


def build_postbox(postbox: settings.MailSettings | settings.MailDeliverySettings) -> SmtpMailer:
    return SmtpMailer(**settings.read_fields(SmtpMailer, postbox))


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
    name: str, delivery: settings.DeliverySettings, catalog: Catalog, open: FileOpener, inserts: InsertBatcher
) -> BlockDelivery:
    selection = RowSelection.from_texts(",".join(delivery.columns), delivery.where)

    def read_parts(since: int, head: int) -> Iterator[DeliveryPart]:
        block = find_next_block(catalog.blocks, delivery.channel, since, head)
        for number, chunk in enumerate(split_into_chunks(block, open, selection), start=1):
            yield DeliveryPart(block.channel, block.seq, number, len(chunk.lines), chunk.to_text())

    return BlockDelivery(name, delivery.channel, _build_receiver(name, delivery, inserts), catalog, read_parts)


def _build_receiver(name: str, delivery: settings.DeliverySettings, inserts: InsertBatcher) -> BlockReceiver:
    match delivery:
        case settings.MailDeliverySettings():
            return BlockMail(build_postbox(delivery))
        case settings.ChannelDeliverySettings():
            return BlockInsert(name, delivery.to, inserts)
        case _:
            return BlockWebhook(delivery.url, delivery.secret)
