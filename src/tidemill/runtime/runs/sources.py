"""Data sources: one server at a time runs each under a lease; another takes over when that one dies."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from tidemill.errors import TidemillError
from tidemill.ports.catalog import ServerCatalog

log = logging.getLogger("tidemill.sources")

Work = Callable[[Callable[[], bool]], None]
"""Ingests data until its argument, which it calls every few seconds, returns False."""


@dataclass(frozen=True, slots=True)
class DataSource:
    name: str
    work: Work


class SourceRunner:
    """Runs data sources inside its context."""

    def __init__(self, servers: ServerCatalog, owner: str, lease: float, stopping: threading.Event) -> None:
        self._servers = servers
        self._owner = owner
        self._lease = lease
        self._stopping = stopping
        self._threads: list[threading.Thread] = []

    def start_sources(self, sources: Sequence[DataSource]) -> SourceRunner:
        for source in sources:
            thread = threading.Thread(
                target=self._run_source, args=(source,), name=f"source-{source.name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        return self

    def __enter__(self) -> SourceRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(self._lease)

    def _run_source(self, source: DataSource) -> None:
        lease = _SourceLease(self._servers, f"source:{source.name}", self._owner, self._lease, self._stopping)
        while not self._stopping.is_set():
            try:
                if lease():
                    source.work(lease)
                    lease.release_lease()
            except Exception:
                log.exception("source %s", source.name)
            self._stopping.wait(self._lease / 3)


class _SourceLease:
    """Tells whether this process still holds the lease; renews it at intervals."""

    def __init__(self, servers: ServerCatalog, name: str, owner: str, lease: float, stopping: threading.Event) -> None:
        self._servers = servers
        self._name = name
        self._owner = owner
        self._lease = lease
        self._stopping = stopping
        self._renewed = float("-inf")

    def __call__(self) -> bool:
        if self._stopping.is_set():
            return False
        now = time.monotonic()
        if now - self._renewed < self._lease / 3:
            return True
        try:
            holds = self._servers.acquire_lease(self._name, self._owner, lease=self._lease)
        except TidemillError as error:
            log.error("%s: cannot renew the lease: %s", self._name, error)
            return now - self._renewed < self._lease
        self._renewed = now if holds else float("-inf")
        return holds

    def release_lease(self) -> None:
        self._renewed = float("-inf")
        self._servers.release_lease(self._name, self._owner)
