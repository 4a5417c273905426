"""Data sources: one server at a time runs each under a lease; another takes over when that one dies."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidemill.errors import TidemillError
from tidemill.ports.catalog import ServerCatalog

log = logging.getLogger("tidemill.sources")

Work = Callable[[Callable[[], bool]], None]
"""Ingests data until its argument, which it calls every few seconds, returns False."""


@dataclass(frozen=True, slots=True)
class DataSource:
    name: str
    work: Work


@dataclass(frozen=True, slots=True)
class SourceRunner:
    """Runs data sources inside its context."""

    servers: ServerCatalog
    owner: str
    lease: float  # seconds
    stopping: threading.Event
    _threads: list[threading.Thread] = field(default_factory=list)

    def start_sources(self, sources: Sequence[DataSource]) -> SourceRunner:
        for source in sources:
            name = f"source-{source.name}"
            self._threads.append(threading.Thread(target=self._run_source, args=(source,), name=name, daemon=True))
            self._threads[-1].start()
        return self

    def __enter__(self) -> SourceRunner:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join(self.lease)

    def _run_source(self, source: DataSource) -> None:
        lease = _SourceLease(self, f"source:{source.name}")
        while not self.stopping.is_set():
            try:
                if lease():
                    source.work(lease)
                    lease.release_lease()
            except Exception:
                log.exception("source %s", source.name)
            self.stopping.wait(self.lease / 3)


@dataclass(slots=True)
class _SourceLease:
    """Tells whether this process still holds the lease; renews it at intervals."""

    runner: SourceRunner
    name: str
    renewed: float = float("-inf")

    def __call__(self) -> bool:
        runner, now = self.runner, time.monotonic()
        if runner.stopping.is_set():
            return False
        if now - self.renewed < runner.lease / 3:
            return True
        try:
            holds = runner.servers.acquire_lease(self.name, runner.owner, lease=runner.lease)
        except TidemillError as error:
            log.error("%s: cannot renew the lease: %s", self.name, error)
            return now - self.renewed < runner.lease
        self.renewed = now if holds else float("-inf")
        return holds

    def release_lease(self) -> None:
        self.renewed = float("-inf")
        self.runner.servers.release_lease(self.name, self.runner.owner)
