"""Sources as the settings want them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidemill.app.settings import FolderSettings, PushSettings, SourceSettings, TcpSettings, WebSubSettings
from tidemill.intake.sources import FolderSource, TcpSource, WebSubSource
from tidemill.runtime.runs.insert_batcher import InsertBatcher, SmallInsert
from tidemill.runtime.runs.sources import DataSource, Work


def build_subscriptions(wanted: Mapping[str, SourceSettings]) -> dict[str, WebSubSource]:
    """By path, on which hubs send what is published."""
    made = (_build_subscription(name, one) for name, one in wanted.items() if isinstance(one, WebSubSettings))
    return {subscription.callback_path: subscription for subscription in made}


def format_lease_name(subscription: WebSubSource) -> str:
    """Under which the catalog keeps how long a hub will send."""
    return f"websub:{subscription.name}"


@dataclass(frozen=True, slots=True)
class SourceFactory:
    """Makes sources for a project in a directory. `stopping` is set when the server is to end; `wake` it for data."""

    gatherer: InsertBatcher
    directory: Path
    cut: PushSettings
    stopping: threading.Event
    wake: Callable[[], None]

    def build_sources(self, wanted: Mapping[str, SourceSettings]) -> list[DataSource]:
        return [DataSource(name, self._build_work(name, one)) for name, one in wanted.items()]

    def _build_work(self, name: str, wanted: SourceSettings) -> Work:
        match wanted:
            case TcpSettings():
                return self._build_tcp_source(name, wanted).run
            case FolderSettings():
                return self._build_folder_source(name, wanted).run
            case WebSubSettings():
                return partial(self._run_subscription, _build_subscription(name, wanted))

    def _build_tcp_source(self, name: str, wanted: TcpSettings) -> TcpSource:
        take = partial(self._insert_lines, wanted.channel)
        seconds, size = self.cut.seconds, self.cut.bytes
        return TcpSource(name, wanted.host, wanted.port, take, self._pause_source, seconds=seconds, size=size)

    def _build_folder_source(self, name: str, wanted: FolderSettings) -> FolderSource:
        take = partial(self._insert_file, wanted.channel, wanted.format)
        return FolderSource(
            name,
            self.directory / wanted.path,
            take,
            self._pause_source,
            time.time,
            pattern=wanted.pattern,
            settle=wanted.settle,
        )

    def _insert_lines(self, channel: str, lines: bytes) -> None:
        (answer,) = self.gatherer.insert_all([SmallInsert(channel, lines, "jsonl")])
        if isinstance(answer, Exception):
            raise answer
        self.wake()

    def _insert_file(self, channel: str, format: str | None, path: Path, digest: str) -> bool:
        made = self.gatherer.inserter.insert_once(channel, path, digest, format=format)
        self.wake()
        return made is not None

    def _run_subscription(self, subscription: WebSubSource, still: Callable[[], bool]) -> None:
        catalog = self.gatherer.inserter.executor.catalog

        def compute_lease_left() -> float:
            return (catalog.read_lease_end(format_lease_name(subscription)) or 0.0) - catalog.read_time()

        subscription.run(still, compute_lease_left, self._pause_source)

    def _pause_source(self, seconds: float) -> None:
        self.stopping.wait(seconds)


def _build_subscription(name: str, wanted: WebSubSettings) -> WebSubSource:
    return WebSubSource(
        name, wanted.channel, wanted.topic, wanted.callback, wanted.secret, hub=wanted.hub, lease=wanted.lease
    )
