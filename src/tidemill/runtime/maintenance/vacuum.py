"""Vacuum: due compactions, garbage collection, expiry, and the removal of files that were marked for removal.

The catalog marks files before they are removed: those of garbage-collected blocks, and directories of attempts that
ended without a result. The store is never listed for that. `scan_store` lists it on request, and only marks.

The work is divided into small steps: before each, `can_continue` is called, and if it returns False the rest stays due
for the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from operator import add

from tidemill.errors import Conflict, GarbageCollected, StorageError, TidemillError
from tidemill.model.block import Block, BlockKind
from tidemill.model.run import ACTIVE_STATES, PENDING_STATES
from tidemill.model.store import GracePeriods, RemovalKind, is_written_by_runs
from tidemill.model.units import format_size
from tidemill.ports.records import RegisteredChannel, RunExpiryCounts
from tidemill.retention.garbage_collection import ReadNeed, find_collectable
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.runtime.maintenance.store_ownership import check_not_rolled_back, check_store
from tidemill.runtime.runs.execution import Executor

ContinueCheck = Callable[[], bool]

REMOVAL_BATCH = 500
"""Maximum number of paths removed between two calls of `can_continue`."""

_Readers = frozenset[tuple[str, str, str]]
"""Which task of which bound flow reads which channel."""


def always_continue() -> bool:
    """Never stop: the caller waits for the result."""
    return True


@dataclass(frozen=True, slots=True)
class CollectionResult:
    """Counts of a garbage collection."""

    blocks: int
    files: int  # removed from the store
    reclaimed: int = 0  # runs whose lease had expired
    marked: int = 0  # files that will be removed after their grace period

    def __add__(self, other: CollectionResult) -> CollectionResult:
        return CollectionResult(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class ScanResult:
    """Counts of a listing of the whole store."""

    attempts: int  # directories
    marked: int  # unreferenced files in directories of finished attempts of this catalog
    unknown: int  # directories of attempts that the catalog neither knows nor references: not touched


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """Result of maintenance. A problem is an error that prevented a compaction or a removal."""

    minor_compactions: tuple[Block, ...] = ()
    major_compactions: tuple[Block, ...] = ()
    collected: CollectionResult = CollectionResult(0, 0)
    expired: RunExpiryCounts = RunExpiryCounts()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockBudget:
    """The bytes from which on maintenance collects older contents of all channels, or of those of one workflow."""

    limit: int
    workflow: str | None = None  # None: all

    @property
    def content(self) -> str:
        return "blocks of channels" if self.workflow is None else f"blocks of workflow {self.workflow}"

    @property
    def setting(self) -> str:
        return "channel_budget" if self.workflow is None else f"[quotas.{self.workflow}] storage"


@dataclass(frozen=True, slots=True)
class VacuumService:
    """Maintains channels. Every step leaves the store readable, even if it is interrupted."""

    executor: Executor
    can_continue: ContinueCheck = always_continue
    grace: GracePeriods = GracePeriods()

    def maintain_channels(
        self,
        channels: Iterable[str],
        compactor: Compactor,
        *,
        history: int,
        points: int = 0,
        retain_since: int | None = None,
    ) -> MaintenanceResult:
        """Do the due maintenance on these channels, and all due removals; a few queries per channel if none is due."""
        names, problems = set(channels), list[str]()
        written = [c for c in self.executor.catalog.channels.list() if c.channel.name in names and c.head.seq > 0]
        compacted = [block for c in written for block in self._compact_channel(c.channel.name, compactor, problems)]
        collected = self._collect_channels(written, retain_since, points)
        collected = replace(collected, files=self._remove_files(problems))
        return MaintenanceResult(
            minor_compactions=tuple(b for b in compacted if b.kind is BlockKind.DELTA),
            major_compactions=tuple(b for b in compacted if b.kind is BlockKind.BASE),
            collected=collected,
            expired=self.expire_runs(names, history),
            problems=tuple(problems),
        )

    def collect_over_budget(self, result: MaintenanceResult, budget: BlockBudget, points: int) -> MaintenanceResult:
        """Collect older contents while blocks exceed a budget; returns the result with these collections.

        The number of readable contents of each channel is halved, from `points`, until the blocks fit: at last to the
        current one. Blocks that cursors, active runs and pins need are never collected.
        """
        catalog, collected = self.executor.catalog, result.collected
        channels = [c for c in catalog.channels.list() if budget.workflow in (None, c.workflow)]
        for readable in _halve(max(points, 1)):
            if self._measure_blocks(budget) <= budget.limit or not self.can_continue():
                break
            collected += self._collect_channels(channels, None, readable)
        used = self._measure_blocks(budget)
        problem = (
            f"{budget.content} use {format_size(used)}, more than {format_size(budget.limit)} of their budget, and all "
            f"of them are needed; raise {budget.setting}, run flows that lag, or unpin blocks"
        )
        problems = (*result.problems, *([problem] if used > budget.limit and self.can_continue() else []))
        return replace(result, collected=collected, problems=problems)

    def _measure_blocks(self, budget: BlockBudget) -> int:
        catalog = self.executor.catalog
        if budget.workflow is None:
            return catalog.files.count_block_bytes()
        return catalog.files.count_workflow_bytes().get(budget.workflow, 0)

    def collect_garbage(self, retain_since: int | None = None) -> CollectionResult:
        """Reclaim expired runs, collect blocks that no reader needs, and remove files whose grace period is over.

        With `retain_since` (microseconds since the epoch) every content from then on stays readable.
        """
        reclaimed = self.executor.catalog.runs.reclaim_expired()
        collected = self._collect_channels(self.executor.catalog.channels.list(), retain_since)
        return replace(collected, files=self.remove_due_files(), reclaimed=len(reclaimed))

    def remove_due_files(self) -> int:
        """Remove files whose grace period is over, in batches; returns how many existed.

        A file that is unreferenced when it is marked stays unreferenced: no two attempts share a directory, and a
        compaction may only share files that a block references.
        """
        catalog, removed = self.executor.catalog, 0
        while self.can_continue() and (due := catalog.files.list_due_removals(self.grace, REMOVAL_BATCH)):
            check_store(catalog, self.executor.store)
            removed += self.executor.store.delete_files(r.path for r in due if r.kind is not RemovalKind.ATTEMPT)
            removed += self._delete_attempts([r.path for r in due if r.kind is RemovalKind.ATTEMPT])
            catalog.files.finish_removals([r.path for r in due])
        return removed

    def drop_copies(self) -> int:
        """Delete this machine's copies of files that are no longer in use; 0 for a store without local copies."""
        catalog, store = self.executor.catalog, self.executor.store
        copies = store.list_copies()  # before the catalog is queried: later copies are not considered
        if not copies or not self.can_continue():
            return 0
        active = catalog.files.list_active_directories()
        used = catalog.files.list_referenced() | catalog.files.list_marked()
        return store.drop_copies(p for p in copies if p not in used and not any(p.startswith(f"{d}/") for d in active))

    def scan_store(self) -> ScanResult:
        """List the whole store, and mark unreferenced files of attempts that the catalog knows to be finished."""
        catalog, store = self.executor.catalog, self.executor.store
        check_store(catalog, store)
        check_not_rolled_back(catalog, store)
        attempts = list(store.list_attempts(store.list_runs()))
        known_attempts, marked_paths = catalog.files.find_attempts(attempts), catalog.files.list_marked()
        ended = {d: r.id for d, r in known_attempts.items() if r.state not in (*PENDING_STATES, *ACTIVE_STATES)}
        finished = [(d, run) for d, run in ended.items() if d not in marked_paths]
        referenced = catalog.files.list_referenced()  # a finished attempt references no further files later
        marked = sum(self._mark_unnamed(d, run, referenced) for d, run in finished if self.can_continue())
        in_use = {"/".join(path.split("/")[:3]) for path in referenced}
        unknown = set(attempts) - known_attempts.keys() - marked_paths - in_use
        return ScanResult(len(attempts), marked, len(unknown))

    def expire_runs(self, channels: Iterable[str], history: int) -> RunExpiryCounts:
        """Expire all but the newest runs of these channels: inserts, compactions, and flows on them."""
        names = set(channels)
        flows = {b.name for b in self.executor.catalog.flows.list() if names & (b.read_channels | b.written_channels)}
        overfull = self.executor.catalog.runs.list_overfull_subjects(names | flows, retain=history)
        expire = partial(self.executor.catalog.runs.expire, retain=history)
        return sum((expire(subject) for subject in overfull if self.can_continue()), start=RunExpiryCounts())

    def _compact_channel(self, channel: str, compactor: Compactor, problems: list[str]) -> Iterator[Block]:
        """Compact until nothing is due, because a minor compaction may complete the next level; stop on a conflict."""
        try:
            while (
                (verdict := compactor.assess_compaction(channel)).compaction
                and not compactor.is_running(channel)
                and self.can_continue()
            ):
                yield compactor.run_compaction(verdict.compaction, verdict.reason)
        except Conflict:
            return
        except TidemillError as error:
            problems.append(f"{channel} was not compacted: {error}")

    def _collect_channels(
        self, channels: Iterable[RegisteredChannel], retain_since: int | None, points: int = 0
    ) -> CollectionResult:
        catalog = self.executor.catalog
        readers = frozenset((b.name, t.name, c) for b in catalog.flows.list() for t in b.tasks for c in t.read_channels)
        collected = sum(self._collect_channel(c, readers, retain_since, points) for c in channels)
        return CollectionResult(collected, 0, marked=len(catalog.blocks.purge()) if self.can_continue() else 0)

    def _collect_channel(
        self, channel: RegisteredChannel, readers: _Readers, retain_since: int | None, points: int
    ) -> int:
        """Collect superseded blocks; 0 if another process does so, or a reader moves, at the same time."""
        catalog, name = self.executor.catalog, channel.channel.name
        blocks = catalog.blocks.list_filled(name)
        if not find_collectable(blocks, channel.head.seq, ()):
            return 0
        cursors, active = catalog.channels.read_cursors(name), catalog.channels.list_active_positions(name)
        needs = [ReadNeed(c.position.seq) for c in cursors if (c.binding, c.task, name) in readers]
        needs += map(ReadNeed, active)
        if points:
            seqs = sorted({b.seq for b in blocks if b.seq <= channel.head.seq})
            needs.append(ReadNeed(seqs[-min(points, len(seqs))], onwards=True))
        if retain_since is not None:
            needs.append(ReadNeed(self._find_seq_at(name, retain_since), onwards=True))
        found = find_collectable(blocks, channel.head.seq, needs, catalog.blocks.list_pinned(name))
        known = {channel.head.seq, *active, *(c.position.seq for c in cursors)}
        try:
            return catalog.blocks.collect([b.id for b in found], known) if found and self.can_continue() else 0
        except Conflict:
            return 0

    def _remove_files(self, problems: list[str]) -> int:
        try:
            return self.remove_due_files()
        except StorageError as error:
            problems.append(f"files were not removed: {error}")
            return 0

    def _delete_attempts(self, directories: Sequence[str]) -> int:
        """Delete the files of attempts without a result; a referenced file, which should not exist, is kept."""
        store = self.executor.store
        written = [path for directory in directories for path in self._list_written(directory)]
        referenced = self.executor.catalog.files.find_referenced(written)
        count = store.delete_files(path for path in written if path not in referenced)
        for directory in directories:
            store.prune_directory(directory)
        return count

    def _mark_unnamed(self, directory: str, run: int, referenced: Collection[str]) -> int:
        unreferenced = [path for path in self._list_written(directory) if path not in referenced]
        return self.executor.catalog.files.mark_orphans(run, unreferenced) if unreferenced else 0

    def _list_written(self, directory: str) -> list[str]:
        return [path for path in self.executor.store.list_directory(directory) if is_written_by_runs(path)]

    def _find_seq_at(self, channel: str, version: int) -> int:
        try:
            return self.executor.catalog.channels.read_position(channel, version=version).seq
        except GarbageCollected:  # expired: all remaining blocks are newer, or lead there
            return 0


def _halve(number: int) -> Iterator[int]:
    """
    >>> list(_halve(50))
    [25, 12, 6, 3, 1, 0]
    """
    while number:
        number //= 2
        yield number
