"""The parts of a project that only servers run: the loop with its periodic tasks, data sources, and deliveries."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO

from tidemill.app import settings as config
from tidemill.app.sources import SourceFactory
from tidemill.app.wiring import Tidemill
from tidemill.encoding.block_rows import RowSelection, split_into_chunks
from tidemill.model.notice import AlarmKind
from tidemill.model.units import parse_duration
from tidemill.ports.catalog import Catalog
from tidemill.ports.records import Server
from tidemill.publish.blocks import BlockDelivery, BlockMail, BlockReceiver, BlockWebhook, DeliveryPart
from tidemill.publish.mail import MailReceiver, SmtpMailer
from tidemill.publish.notify import Notifier, build_receivers
from tidemill.publish.webhook import WebhookReceiver
from tidemill.runtime.inspect.change_feed import find_next_block
from tidemill.runtime.inspect.status import read_target_alarms
from tidemill.runtime.oneshot.eviction import DatasetEvictor
from tidemill.runtime.oneshot.storage_report import list_quota_shares, read_storage_alarms
from tidemill.runtime.runs.insert_batcher import InsertBatcher, SmallInsert
from tidemill.runtime.runs.quotas import measure_usage
from tidemill.runtime.runs.server import PeriodicTask, ServerIntervals, ServerLoop
from tidemill.runtime.runs.sources import SourceRunner

log = logging.getLogger("tidemill.server")


def build_server_loop(mill: Tidemill, role: str, tracks: int | None = None) -> ServerLoop:
    settings = mill.settings.server
    mill.maintenance = replace(mill.maintenance, stopping=threading.Event())
    server = Server(mill.executor.owner, role, tracks or settings.tracks)
    return ServerLoop(
        mill.catalog,
        server,
        mill.execute_run,
        _list_tasks(mill),
        ServerIntervals(tick=settings.poll_interval, leader_lease=settings.leader_timeout),
        replace(mill.dispatch_config, tracks=server.tracks),
        mill.maintenance.stopping,
        mill.executor,
        mill.quotas.limit_tracks,
    )


def start_sources(mill: Tidemill, wake: Callable[[], None]) -> SourceRunner:
    """A context manager that runs the project's data sources; `wake` is called when data arrive."""
    stopping = threading.Event()
    factory = SourceFactory(mill.insert_batcher, mill.directory, mill.settings.push, stopping, wake)
    runner = SourceRunner(mill.catalog.servers, mill.executor.owner, mill.settings.server.leader_timeout, stopping)
    return runner.start_sources(factory.build_sources(mill.settings.sources))


def _list_tasks(mill: Tidemill) -> list[PeriodicTask]:
    settings = mill.settings.server
    receivers = (_build_receiver(name, receiver) for name, receiver in mill.settings.notify.items())
    evict = partial(_evict_datasets, mill, mill.oneshot_service.build_evictor())
    deliveries = build_deliveries(mill.settings.deliver, mill.catalog, mill.store.open_file, mill.insert_batcher)
    notifier = Notifier(mill.catalog.notices, build_receivers(receivers))
    return [
        PeriodicTask("sending notices", settings.poll_interval, notifier),
        PeriodicTask("checking freshness targets", max(settings.poll_interval, 5.0), partial(_check_targets, mill)),
        PeriodicTask("maintenance", settings.maintenance_interval, partial(_maintain_all, mill)),
        PeriodicTask("evicting datasets", settings.maintenance_interval, evict),
        PeriodicTask("copying datasets", settings.maintenance_interval, mill.oneshot_service.place_copies),
        *(PeriodicTask(f"delivering to {d.name}", settings.poll_interval, d) for d in deliveries),
    ]


def _maintain_all(mill: Tidemill) -> None:
    mill.maintenance.run_maintenance()
    settings = mill.settings.maintenance
    mill.catalog.accounts.expire_audit(parse_duration(settings.audit_retention))
    if mill.settings.push.producer_retention is not None:
        mill.catalog.channels.expire_producers(parse_duration(mill.settings.push.producer_retention))
    mill.catalog.datasets.expire_submissions(parse_duration(settings.history_retention))


def _check_targets(mill: Tidemill) -> None:
    mill.catalog.alarms.update(AlarmKind.TARGET_MISSED, read_target_alarms(mill.catalog))


def _evict_datasets(mill: Tidemill, evictor: DatasetEvictor) -> None:
    """Evict datasets that exceed their budgets, and report all budgets and quotas that are exceeded."""
    usage = measure_usage(mill.quotas.quotas, mill.catalog.files)
    quotas = list_quota_shares(usage, mill.settings.storage.eviction_threshold)
    shares = (*evictor.measure_shares().listed_shares, *quotas)
    mill.catalog.alarms.update(AlarmKind.STORAGE_EXCEEDED, read_storage_alarms(shares))
    report = evictor.enforce_budgets()
    for problem in () if report is None else report.problems:
        log.warning("datasets exceed their budget: %s", problem)
    if report is not None and report.evictions:
        log.info("evicted %d datasets with %d bytes", len(report.evictions), report.freed_bytes)


def _build_receiver(name: str, settings: config.ReceiverSettings) -> WebhookReceiver | MailReceiver:
    kinds = frozenset(settings.events)
    if isinstance(settings, config.WebhookSettings):
        return WebhookReceiver(name, settings.url, settings.secret, kinds)
    return MailReceiver(name, build_postbox(settings), kinds)


FileOpener = Callable[[str], BinaryIO]


def build_deliveries(
    deliveries: Mapping[str, config.DeliverySettings], catalog: Catalog, open: FileOpener, inserts: InsertBatcher
) -> list[BlockDelivery]:
    """The deliveries of the settings; `open` opens a file of a block."""
    return [_build_delivery(name, delivery, catalog, open, inserts) for name, delivery in deliveries.items()]


def build_postbox(postbox: config.MailSettings | config.MailDeliverySettings) -> SmtpMailer:
    return SmtpMailer(**config.read_fields(SmtpMailer, postbox))


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
    name: str, delivery: config.DeliverySettings, catalog: Catalog, open: FileOpener, inserts: InsertBatcher
) -> BlockDelivery:
    selection = RowSelection.from_texts(",".join(delivery.columns), delivery.where)

    def read_parts(since: int, head: int) -> Iterator[DeliveryPart]:
        block = find_next_block(catalog.blocks, delivery.channel, since, head)
        for number, chunk in enumerate(split_into_chunks(block, open, selection), start=1):
            yield DeliveryPart(block.channel, block.seq, number, len(chunk.lines), chunk.to_text())

    return BlockDelivery(name, delivery.channel, _build_block_receiver(name, delivery, inserts), catalog, read_parts)


def _build_block_receiver(name: str, delivery: config.DeliverySettings, inserts: InsertBatcher) -> BlockReceiver:
    match delivery:
        case config.MailDeliverySettings():
            return BlockMail(build_postbox(delivery))
        case config.ChannelDeliverySettings():
            return BlockInsert(name, delivery.to, inserts)
        case _:
            return BlockWebhook(delivery.url, delivery.secret)
