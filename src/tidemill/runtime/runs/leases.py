"""The runs of this process: their leases, and the runs that the catalog lists as this process's.

Both may differ after the connection to the catalog was lost: a claim may have been committed whose answer was lost,
and the end of a run may not have been recorded. Until its lease expires, such a run keeps its keys, and hides all later
blocks of its channels.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tidemill.errors import CatalogError, LeaseLost, TidemillError
from tidemill.model.run import Run, RunClaim
from tidemill.ports.catalog import RunCatalog

T = TypeVar("T", Run, RunClaim)


class ProcessRuns:
    """The running runs of this process, under the name `owner`. Thread-safe."""

    def __init__(self, runs: RunCatalog, owner: str) -> None:
        self._runs = runs
        self._owner = owner
        self._changed = threading.Condition()
        self._pending_claims = 0  # claims in progress
        self._in_doubt = False  # the catalog may list runs as this process's that this process does not have
        self.running: dict[int, Run] = {}  # by number

    def claim_run(self, make_claim: Callable[[], T]) -> T:
        """Claim a run; it counts as running while it is in `running`."""
        with self._changed:
            self._pending_claims += 1
        try:
            with self.watch_failures():
                claim = make_claim()
            run = claim.run if isinstance(claim, RunClaim) else claim
            self.running[run.id] = run
            return claim
        finally:
            with self._changed:
                self._pending_claims -= 1
                self._changed.notify_all()

    @contextmanager
    def watch_failures(self) -> Iterator[None]:
        """Note if a catalog call inside fails: it may or may not have taken effect."""
        try:
            yield
        except CatalogError:
            self._in_doubt = True
            raise

    def recover_claims(self) -> None:
        """Give up the runs that the catalog wrongly lists as this process's, after the catalog was unreachable."""
        if not self._in_doubt:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._pending_claims)
            self._in_doubt = False
            with self.watch_failures():
                error = f"{self._owner} lost its connection to the catalog"
                self._runs.reclaim_owned(self._owner, error=error, keep=list(self.running))


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

    def __exit__(self, *_error: object) -> None:
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
