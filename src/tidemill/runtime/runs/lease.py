"""Leases: keep the right to execute a run, and notice its loss."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from tidemill.errors import LeaseLost, TidemillError
from tidemill.model.run import Run
from tidemill.ports.catalog import RunCatalog


class Lease:
    """Renews the lease of a run in the background; sets `lost` and calls `on_loss` once the lease is lost.

    A renewal that fails for another reason, such as an unreachable catalog, is retried: the fencing token, not this
    thread, prevents a commit after another process took the run.
    """

    def __init__(self, runs: RunCatalog, run: Run, seconds: float, on_loss: Callable[[], None]) -> None:
        self._runs = runs
        self._run = run
        self._seconds = seconds
        self._on_loss = on_loss
        self._done = threading.Event()
        self.lost = threading.Event()
        self._thread = threading.Thread(target=self._renew_lease, name=f"lease-{run.id}", daemon=True)

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(timeout=self._seconds)

    def _renew_lease(self) -> None:
        while not self._done.wait(self._seconds / 3):
            try:
                self._runs.renew_lease(self._run.id, self._run.fencing_token, lease=self._seconds)
            except LeaseLost:
                self.lost.set()
                self._on_loss()
                return
            except TidemillError:
                continue
