"""Sources as the settings want them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidemill.app.settings import FolderSettings, PushSettings, SourceSettings, TcpSettings, WebSubSettings
from tidemill.intake.sources import FolderSource, Subscription, TcpSource
from tidemill.runtime.runs.insert_batcher import Gatherer, Small
from tidemill.runtime.runs.sources import Source, Work


def subscriptions(wanted: Mapping[str, SourceSettings]) -> dict[str, Subscription]:
    """By path, on which hubs send what is published."""
    made = (_subscription(name, one) for name, one in wanted.items() if isinstance(one, WebSubSettings))
    return {subscription.path: subscription for subscription in made}


def lease_name(subscription: Subscription) -> str:
    """Under which the catalog keeps how long a hub will send."""
    return f"websub:{subscription.name}"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Makes sources for a project in a directory. `stopping` is set when the server is to end; `wake` it for data."""

    gatherer: Gatherer
    directory: Path
    cut: PushSettings
    stopping: threading.Event
    wake: Callable[[], None]

    def sources(self, wanted: Mapping[str, SourceSettings]) -> list[Source]:
        return [Source(name, self._work(name, one)) for name, one in wanted.items()]

    def _work(self, name: str, wanted: SourceSettings) -> Work:
        match wanted:
            case TcpSettings():
                return self._tcp(name, wanted).run
            case FolderSettings():
                return self._folder(name, wanted).run
            case WebSubSettings():
                return partial(self._subscribed, _subscription(name, wanted))

    def _tcp(self, name: str, wanted: TcpSettings) -> TcpSource:
        take = partial(self._lines, wanted.channel)
        seconds, size = self.cut.seconds, self.cut.bytes
        return TcpSource(name, wanted.host, wanted.port, take, self._pause, seconds=seconds, size=size)

    def _folder(self, name: str, wanted: FolderSettings) -> FolderSource:
        take = partial(self._file, wanted.channel, wanted.format)
        return FolderSource(
            name,
            self.directory / wanted.path,
            take,
            self._pause,
            time.time,
            pattern=wanted.pattern,
            settle=wanted.settle,
        )

    def _lines(self, channel: str, lines: bytes) -> None:
        (answer,) = self.gatherer.insert([Small(channel, lines, "jsonl")])
        if isinstance(answer, Exception):
            raise answer
        self.wake()

    def _file(self, channel: str, format: str | None, path: Path, digest: str) -> bool:
        made = self.gatherer.inserter.once(channel, path, digest, format=format)
        self.wake()
        return made is not None

    def _subscribed(self, subscription: Subscription, still: Callable[[], bool]) -> None:
        catalog = self.gatherer.inserter.executor.catalog

        def left() -> float:
            return (catalog.held_until(lease_name(subscription)) or 0.0) - catalog.now()

        subscription.run(still, left, self._pause)

    def _pause(self, seconds: float) -> None:
        self.stopping.wait(seconds)


def _subscription(name: str, wanted: WebSubSettings) -> Subscription:
    return Subscription(
        name, wanted.channel, wanted.topic, wanted.callback, wanted.secret, hub=wanted.hub, lease=wanted.lease
    )
