"""Reports on the storage of datasets: which are retained and why, and which would be evicted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidemill.model.notice import AlarmReading
from tidemill.model.quota import QuotaUsage
from tidemill.model.states import DatasetState
from tidemill.model.submission import StoredDataset

BLOCKS = "blocks of channels"


@dataclass(frozen=True, slots=True)
class StorageBudget:
    """The bytes that datasets or blocks may use, and the share of it from which on space is freed."""

    byte_budget: int
    threshold: float

    @property
    def byte_limit(self) -> int:
        return int(self.byte_budget * self.threshold)


@dataclass(frozen=True, slots=True)
class StorageBudgets:
    """The budgets of all datasets together, of single workflows, and of the blocks of channels. None: unlimited."""

    store: StorageBudget | None = None
    workflows: Mapping[str, StorageBudget] = field(default_factory=dict)
    channels: StorageBudget | None = None


@dataclass(frozen=True, slots=True)
class StorageShare:
    """The bytes that the datasets of one workflow, all datasets, or the blocks of channels use, and their budget."""

    workflow: str | None  # None: all
    used_bytes: int
    budget: StorageBudget | None
    content: str = "datasets"  # or BLOCKS

    @property
    def content_name(self) -> str:
        return self.content if self.workflow is None else f"{self.content} of workflow {self.workflow}"

    @property
    def excess_bytes(self) -> int:
        """Bytes that must be freed."""
        return 0 if self.budget is None else max(self.used_bytes - self.budget.byte_limit, 0)

    @property
    def owner_name(self) -> str:
        return "the store" if self.workflow is None else f"workflow {self.workflow!r}"


@dataclass(frozen=True, slots=True)
class StorageShares:
    """Usage of all datasets, of each workflow with a budget, and of the blocks of channels if they have one."""

    store: StorageShare
    workflows: tuple[StorageShare, ...]
    channels: StorageShare | None = None

    @property
    def listed_shares(self) -> tuple[StorageShare, ...]:
        return (self.store, *self.workflows, *(() if self.channels is None else (self.channels,)))

    @property
    def exceeded_shares(self) -> tuple[StorageShare, ...]:
        """The shares over budget: workflows before the store, because their evictions count for the store, too.

        Blocks are not among them: maintenance collects them.
        """
        return tuple(share for share in (*self.workflows, self.store) if share.excess_bytes)


@dataclass(frozen=True, slots=True)
class RetainedDataset:
    """A dataset that uses space, and why it is retained."""

    dataset: StoredDataset
    why: str


@dataclass(frozen=True, slots=True)
class EvictionCandidate:
    """A dataset that would be evicted, and the seconds to recompute it after the whole eviction."""

    dataset: StoredDataset
    seconds: float


@dataclass(frozen=True, slots=True)
class StorageReport:
    """Report on storage."""

    shares: StorageShares
    retained: tuple[RetainedDataset, ...]
    evictions: tuple[EvictionCandidate, ...]  # the next ones
    seconds: float  # to recompute all of `evictions`
    problems: tuple[str, ...] = ()  # budgets that they cannot meet

    @property
    def freed_bytes(self) -> int:
        return sum(g.dataset.bytes for g in self.evictions)


def list_quota_shares(usage: Iterable[QuotaUsage], threshold: float) -> list[StorageShare]:
    """The blocks of the workflows with a storage quota, and this quota as their budget."""
    stored = [(u, u.quota.storage) for u in usage]
    return [StorageShare(u.workflow, u.used_bytes, StorageBudget(b, threshold), BLOCKS) for u, b in stored if b]


def compute_shares(used_bytes: Mapping[str, int], budgets: StorageBudgets, block_bytes: int = 0) -> StorageShares:
    """Compare the bytes used by the datasets of each workflow, and by blocks, with the budgets."""
    channels = None if budgets.channels is None else StorageShare(None, block_bytes, budgets.channels, BLOCKS)
    named = tuple(
        StorageShare(name, used_bytes.get(name, 0), budget) for name, budget in sorted(budgets.workflows.items())
    )
    return StorageShares(StorageShare(None, sum(used_bytes.values()), budgets.store), named, channels)


ALARM_RESET_SHARE = 0.9
"""An alarm about a budget ends below this share of its threshold: evictions free no more than they must."""


def read_storage_alarms(shares: Iterable[StorageShare]) -> dict[str, AlarmReading]:
    """The condition of each budget, by what it is for."""
    return {s.content_name: _read_storage_alarm(s, s.budget) for s in shares if s.budget is not None}


def _read_storage_alarm(share: StorageShare, budget: StorageBudget) -> AlarmReading:
    is_near = share.used_bytes >= ALARM_RESET_SHARE * budget.byte_limit
    budget_bytes = {"budget_bytes": budget.byte_budget, "threshold_bytes": budget.byte_limit}
    is_active = bool(share.excess_bytes) or (None if is_near else False)
    return AlarmReading(is_active, {"used_bytes": share.used_bytes, **budget_bytes})


def explain_retention(dataset: StoredDataset) -> str:
    if dataset.pinned:
        return "pinned: it stays until it is unpinned"
    if dataset.state is DatasetState.LEAF:
        return f"leaf of {dataset.workflow}: it stays until it is dropped"
    if dataset.state is DatasetState.PROCESSING:
        return "marked for eviction"
    if dataset.state is DatasetState.DELETING:
        return "its files are being deleted"
    reading = f"{dataset.claims} pending reads"
    if dataset.state is DatasetState.STORED_TO_DELETE:
        return f"deleted after {reading}"
    return f"needed for {reading}" if dataset.claims else "until space is short"
