"""Deliveries as the settings want them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

from tidemill.ports import CatalogWriter
from tidemill.publish import BlockHook, BlockMail, Delivery, Part, Postbox
from tidemill.runtime.follow import following
from tidemill.settings import DeliverySettings, MailDelivery, MailSettings
from tidemill.tap import Selection, pieces

Opens = Callable[[str], BinaryIO]


def deliveries(wanted: Mapping[str, DeliverySettings], catalog: CatalogWriter, open: Opens) -> list[Delivery]:
    """`open` opens a file of a block."""
    return [_delivery(name, one, catalog, open) for name, one in wanted.items()]


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


def _delivery(name: str, wanted: DeliverySettings, catalog: CatalogWriter, open: Opens) -> Delivery:
    selection = Selection.parse(",".join(wanted.columns), wanted.where)

    def parts(at: int, head: int) -> Iterator[Part]:
        block = following(catalog, wanted.channel, at, head)
        for number, piece in enumerate(pieces(block, open, selection), start=1):
            yield Part(block.channel, block.seq, number, len(piece.lines), piece.text())

    to = BlockMail(post_of(wanted)) if isinstance(wanted, MailDelivery) else BlockHook(wanted.url, wanted.secret)
    return Delivery(name, wanted.channel, to, catalog, parts)
