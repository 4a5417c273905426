"""The runs that this process has, by its own account and by the catalog's.

The two may differ after the catalog was cut off: a claim may have been committed whose answer never came, and the end
of a run may not have been recorded. Until its lease ends, such a run keeps its keys, and hides whatever was written to
its channels after it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tidemill.errors import CatalogError
from tidemill.model.run import Run, RunClaim
from tidemill.ports.catalog import CatalogWriter

T = TypeVar("T", Run, RunClaim)


class ProcessRuns:
    """The runs under way in this process, under the name `owner`. Safe between threads."""

    def __init__(self, catalog: CatalogWriter, owner: str) -> None:
        self._catalog = catalog
        self._owner = owner
        self._changed = threading.Condition()
        self._claiming = 0  # claims that are being made
        self._in_doubt = False  # the catalog may say that runs are this process's of which it knows nothing
        self.under_way: dict[int, Run] = {}  # by number

    def claim_run(self, make: Callable[[], T]) -> T:
        """Claim a run; it is under way until `end` is said of it."""
        with self._changed:
            self._claiming += 1
        try:
            with self.watch_failures():
                made = make()
            run = made.run if isinstance(made, RunClaim) else made
            self.under_way[run.id] = run
            return made
        finally:
            with self._changed:
                self._claiming -= 1
                self._changed.notify_all()

    def end_run(self, run: Run) -> None:
        self.under_way.pop(run.id, None)

    @contextmanager
    def watch_failures(self) -> Iterator[None]:
        """Whatever the catalog is told inside, it may or may not have heard if it fails."""
        try:
            yield
        except CatalogError:
            self._in_doubt = True
            raise

    def recover_claims(self) -> None:
        """If the catalog was cut off since this was last called, give up what it has this process down for in vain."""
        if not self._in_doubt:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._claiming)
            self._in_doubt = False
            with self.watch_failures():
                self._catalog.reclaim_unknown_runs(self._owner, list(self.under_way))
