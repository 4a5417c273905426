"""Construction of data sources from the settings."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidemill.app.settings import FolderSettings, PushSettings, SourceSettings, TcpSettings, WebSubSettings, read_fields
from tidemill.intake.sources.folder import FolderSource
from tidemill.intake.sources.tcp import TcpSource
from tidemill.intake.sources.websub import WebSubSource
from tidemill.runtime.runs.insert_batcher import InsertBatcher, SmallInsert
from tidemill.runtime.runs.sources import DataSource, Work


def build_subscriptions(settings: Mapping[str, SourceSettings]) -> dict[str, WebSubSource]:
    """The WebSub subscriptions by the callback path to which their hubs send."""
    built = (_build_subscription(name, s) for name, s in settings.items() if isinstance(s, WebSubSettings))
    return {subscription.callback_path: subscription for subscription in built}


def format_lease_name(subscription: WebSubSource) -> str:
    """The name of the lease in the catalog that records how long a hub sends to a subscription."""
    return f"websub:{subscription.name}"


@dataclass(frozen=True, slots=True)
class SourceFactory:
    """Creates the sources of a project. `stopping` is set when the server stops; `wake` is called when data arrive."""

    batcher: InsertBatcher
    directory: Path
    push_settings: PushSettings
    stopping: threading.Event
    wake: Callable[[], None]

    def build_sources(self, sources: Mapping[str, SourceSettings]) -> list[DataSource]:
        return [DataSource(name, self._build_work(name, settings)) for name, settings in sources.items()]

    def _build_work(self, name: str, settings: SourceSettings) -> Work:
        push = self.push_settings
        match settings:
            case TcpSettings():
                insert_lines = partial(self._insert_lines, settings.channel)
                address = settings.host, settings.port
                return TcpSource(name, *address, insert_lines, self.stopping.wait, push.max_wait, push.max_bytes).run
            case FolderSettings():
                return FolderSource(
                    name,
                    self.directory / settings.path,
                    partial(self._insert_file, settings.channel, settings.format),
                    self.stopping.wait,
                    time.monotonic,
                    settings.pattern,
                    settings.quiet_period,
                ).run
            case WebSubSettings():
                return partial(self._run_subscription, _build_subscription(name, settings))

    def _insert_lines(self, channel: str, lines: bytes) -> None:
        (result,) = self.batcher.insert_all([SmallInsert(channel, lines, "jsonl")])
        if isinstance(result, Exception):
            raise result
        self.wake()

    def _insert_file(self, channel: str, format: str | None, path: Path, digest: str) -> bool:
        result = self.batcher.inserter.insert_once(channel, path, digest, format=format)
        self.wake()
        return result is not None

    def _run_subscription(self, subscription: WebSubSource, is_active: Callable[[], bool]) -> None:
        catalog = self.batcher.inserter.executor.catalog

        def compute_lease_left() -> float:
            return (catalog.servers.read_lease_end(format_lease_name(subscription)) or 0.0) - catalog.read_time()

        subscription.run(is_active, compute_lease_left, self.stopping.wait)


def _build_subscription(name: str, settings: WebSubSettings) -> WebSubSource:
    return WebSubSource(name, **read_fields(WebSubSource, settings))
