"""Quotas: what the runs and the data of one workflow may use, so that it cannot starve the others."""

from dataclasses import dataclass

from tidemill.model.units import format_size


@dataclass(frozen=True, slots=True)
class WorkflowQuota:
    """The limits of a workflow. None: unlimited."""

    tracks: int | None = None  # runs of its flows that one server executes at the same time, backfills included
    storage: int | None = None  # bytes of the blocks of its channels


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """A workflow's quota, and the bytes that its channels use.

    >>> QuotaUsage("shop", WorkflowQuota(storage=2048), 4096).problem
    'workflow shop uses 4.1 kB, more than its storage quota of 2.0 kB'
    >>> QuotaUsage("shop", WorkflowQuota(tracks=1), 4096).is_exceeded
    False
    """

    workflow: str
    quota: WorkflowQuota
    used_bytes: int

    @property
    def is_exceeded(self) -> bool:
        return self.quota.storage is not None and self.used_bytes > self.quota.storage

    @property
    def problem(self) -> str | None:
        """Why the workflow may not grow; None if it may."""
        if self.quota.storage is None or not self.is_exceeded:
            return None
        used, limit = format_size(self.used_bytes), format_size(self.quota.storage)
        return f"workflow {self.workflow} uses {used}, more than its storage quota of {limit}"
