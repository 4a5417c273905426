"""Enforces the quotas of workflows: how many of their runs are executed at once, and how much their channels store."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidemill.errors import QuotaExceeded
from tidemill.model.quota import QuotaUsage, WorkflowQuota
from tidemill.ports.catalog import FileQueries

USAGE_SECONDS = 10.0
"""Seconds for which a measurement of the storage is used: inserts and ticks do not measure it each time."""


def measure_usage(quotas: Mapping[str, WorkflowQuota], files: FileQueries) -> tuple[QuotaUsage, ...]:
    """The usage of each workflow that has a quota, by name; without quotas no query is made."""
    used = files.count_workflow_bytes() if quotas else {}
    return tuple(QuotaUsage(name, quota, used.get(name, 0)) for name, quota in sorted(quotas.items()))


@dataclass(slots=True)
class QuotaGuard:
    """Refuses what exceeds a quota. Thread-safe; without quotas it makes no query.

    A workflow over its storage quota may exceed it by what it writes until the next measurement.
    """

    files: FileQueries
    quotas: Mapping[str, WorkflowQuota]
    clock: Callable[[], float] = time.monotonic
    _usage: tuple[QuotaUsage, ...] = ()
    _measured_at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check_storage(self, workflow: str) -> None:
        """Raise `QuotaExceeded` if a workflow uses more storage than its quota."""
        problem = next((u.problem for u in self._read_usage() if u.workflow == workflow), None)
        if problem is not None:
            raise QuotaExceeded(
                f"{problem}: its inserts are refused and its runs wait; raise [quotas.{workflow}] storage, or free "
                "space: shorten its retention, unpin blocks, or remove channels"
            )

    def limit_tracks(self) -> dict[str, int]:
        """How many runs of a workflow one server may execute at once: none while it exceeds its storage quota."""
        limits = {name: quota.tracks for name, quota in self.quotas.items() if quota.tracks is not None}
        return limits | {u.workflow: 0 for u in self._read_usage() if u.is_exceeded}

    def _read_usage(self) -> tuple[QuotaUsage, ...]:
        if all(quota.storage is None for quota in self.quotas.values()):
            return ()
        with self._lock:
            if self.clock() - self._measured_at >= USAGE_SECONDS:
                self._usage, self._measured_at = measure_usage(self.quotas, self.files), self.clock()
            return self._usage
