"""Keeping house: compaction where it is due, collection, forgetting, and removing what was marked for removal.

What is removed was marked first, by the catalog: files of garbage-collected blocks, and directories of attempts that
ended without a result. The store is never listed for it. `scan` does that when it is asked for, and only marks.

All of it is done in small steps, each of which can be the last: before one begins, `go_on` is asked. What is left then
is as due as before, and done the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill import errors
from tidemill.errors import Conflict, StorageError, TidemillError
from tidemill.model.block import Block, BlockKind
from tidemill.model.codec import Json
from tidemill.model.run import TO_COME, UNDER_WAY
from tidemill.model.store import GracePeriods, RemovalKind, is_written_by_runs
from tidemill.ports.records import RegisteredBinding, RegisteredChannel, RunExpiryCounts
from tidemill.retention.garbage_collection import ReadNeed, find_collectable
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.runtime.maintenance.store_ownership import check_not_rolled_back, check_store
from tidemill.runtime.runs.execution import Executor

GoOn = Callable[[], bool]

FILES = 500
"""So many paths are removed at most before it is asked again whether to go on."""

_Readers = frozenset[tuple[str, str, str]]
"""Which task of which bound flow reads which channel."""


def always_continue() -> bool:
    """Whoever asked for it waits for it, too."""
    return True


@dataclass(frozen=True, slots=True)
class CollectionResult:
    """What a collection removed."""

    blocks: int
    files: int  # removed from the store
    reclaimed: int = 0  # runs whose lease had expired
    marked: int = 0  # files that will be removed after their grace time


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a listing of the whole store found."""

    attempts: int  # directories
    marked: int  # files that nothing names, in directories of attempts of this catalog that are over
    unknown: int  # directories of attempts that the catalog does not know and of which it names nothing: left alone


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """What tidying did. A problem is an error that kept a compaction or a removal from being done."""

    folded: tuple[Block, ...] = ()
    rebased: tuple[Block, ...] = ()
    collected: CollectionResult = CollectionResult(0, 0)
    forgotten: RunExpiryCounts = RunExpiryCounts()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VacuumService:
    """Does what nobody waits for. Every step leaves the store readable, wherever it is interrupted."""

    executor: Executor
    go_on: GoOn = always_continue
    grace: GracePeriods = GracePeriods()

    def maintain_channels(
        self,
        channels: Iterable[str],
        compactor: Compactor,
        *,
        history: int,
        points: int = 0,
        keep_since: int | None = None,
    ) -> MaintenanceResult:
        """Do on these channels what is due, and remove what is due anywhere; a few queries a channel if nothing is."""
        names, problems = set(channels), list[str]()
        written = [c for c in self.executor.catalog.list_channels() if c.channel.name in names and c.head.seq > 0]
        made = [block for c in written for block in self._compact_channel(c.channel.name, compactor, problems)]
        collected = self._collect_channels(written, keep_since, points)
        collected = replace(collected, files=self._remove_files(problems))
        return MaintenanceResult(
            folded=tuple(b for b in made if b.kind is BlockKind.DELTA),
            rebased=tuple(b for b in made if b.kind is BlockKind.BASE),
            collected=collected,
            forgotten=self.expire_runs(names, history),
            problems=tuple(problems),
        )

    def collect_garbage(self, keep_since: int | None = None) -> CollectionResult:
        """Give up expired runs, hide blocks that nobody can need, and remove files that were marked long enough ago.

        With `keep_since` (microseconds since the epoch) every content from then on stays readable.
        """
        reclaimed = self.executor.catalog.reclaim_expired_runs()
        gone = self._collect_channels(self.executor.catalog.list_channels(), keep_since)
        return replace(gone, files=self.remove_due_files(), reclaimed=len(reclaimed))

    def remove_due_files(self) -> int:
        """Remove what was marked long enough ago, a piece at a time; returns how many files were there.

        What nothing names when it is marked, nothing ever names again: no two attempts share a directory, and a
        compaction may only share files that a block names.
        """
        catalog, removed = self.executor.catalog, 0
        while self.go_on() and (due := catalog.list_due_removals(self.grace, FILES)):
            check_store(catalog, self.executor.store)
            removed += self._delete_files(r.path for r in due if r.kind is not RemovalKind.ATTEMPT)
            removed += self._delete_attempts([r.path for r in due if r.kind is RemovalKind.ATTEMPT])
            catalog.finish_removals([r.path for r in due])
        return removed

    def drop_copies(self) -> int:
        """Delete this machine's copies of files that are no longer in use; of a store that has no copies, none."""
        catalog, store = self.executor.catalog, self.executor.store
        copies = store.list_copies()  # before asking the catalog: later ones are not judged
        if not copies or not self.go_on():
            return 0
        active, used = catalog.list_active_directories(), catalog.list_referenced_files() | catalog.list_marked_paths()
        return store.drop_copies(p for p in copies if p not in used and not any(p.startswith(f"{d}/") for d in active))

    def scan_store(self) -> ScanResult:
        """List the whole store, and mark the files that nothing names and that attempts of this catalog left.

        Only directories of attempts that the catalog knows to be over are looked into.
        """
        catalog, store = self.executor.catalog, self.executor.store
        check_store(catalog, store)
        check_not_rolled_back(catalog, store)
        attempts = list(store.list_attempts(store.list_runs()))
        known, going = catalog.find_attempts(attempts), catalog.list_marked_paths()
        over = {d: r.id for d, r in known.items() if r.state not in (*TO_COME, *UNDER_WAY) and d not in going}
        named = (
            catalog.list_referenced_files()
        )  # of an attempt that is over nothing is named later that is not named now
        marked = sum(self._mark_unnamed(directory, run, named) for directory, run in over.items() if self.go_on())
        in_use = {"/".join(path.split("/")[:3]) for path in named}
        unknown = set(attempts) - known.keys() - going - in_use
        return ScanResult(len(attempts), marked, len(unknown))

    def expire_runs(self, channels: Iterable[str], history: int) -> RunExpiryCounts:
        """Forget all but the newest runs that are about these channels: inserts, compactions, and flows on them."""
        names = set(channels)
        flows = {b.name for b in self.executor.catalog.list_bindings() if names & _list_channels(b)}
        crowded = self.executor.catalog.list_overfull_subjects(names | flows, keep=history)
        forgotten = (self.executor.catalog.expire_runs(subject, keep=history) for subject in crowded if self.go_on())
        return sum(forgotten, start=RunExpiryCounts())

    def _compact_channel(self, channel: str, compactor: Compactor, problems: list[str]) -> Iterator[Block]:
        """Compact until nothing is due: folding may complete the next level. Who else does it is left to it."""
        try:
            while (
                (due := compactor.assess_compaction(channel)).wanted
                and not compactor.is_running(channel)
                and self.go_on()
            ):
                yield compactor.run_compaction(due.wanted, due.why)
        except Conflict:
            return
        except TidemillError as error:
            problems.append(f"{channel} was not compacted: {error}")

    def _collect_channels(
        self, channels: Iterable[RegisteredChannel], keep_since: int | None, points: int = 0
    ) -> CollectionResult:
        catalog = self.executor.catalog
        reading = _list_readers(catalog.list_bindings())
        gone = sum(self._collect_blocks(self._find_superseded_blocks(c, reading, keep_since, points)) for c in channels)
        return CollectionResult(gone, 0, marked=len(catalog.purge_blocks()) if self.go_on() else 0)

    def _collect_blocks(self, blocks: list[Block]) -> int:
        """Collect blocks of one channel; somebody else may do the same."""
        try:
            return self.executor.catalog.collect_blocks(b.id for b in blocks) if blocks and self.go_on() else 0
        except Conflict:
            return 0

    def _remove_files(self, problems: list[str]) -> int:
        try:
            return self.remove_due_files()
        except StorageError as error:
            problems.append(f"files were not removed: {error}")
            return 0

    def _delete_files(self, paths: Iterable[str]) -> int:
        wanted = list(paths)
        return self.executor.store.delete_files(wanted) if wanted else 0

    def _delete_attempts(self, directories: Sequence[str]) -> int:
        """Of an attempt without a result nothing is ever named; were it otherwise, that would stay."""
        store = self.executor.store
        found = [path for directory in directories for path in self._list_written(directory)]
        named = self.executor.catalog.find_referenced_files(found)
        count = self._delete_files(path for path in found if path not in named)
        for directory in directories:
            store.prune_directory(directory)
        return count

    def _mark_unnamed(self, directory: str, run: int, named: Collection[str]) -> int:
        unnamed = [path for path in self._list_written(directory) if path not in named]
        return self.executor.catalog.mark_orphans(run, unnamed) if unnamed else 0

    def _list_written(self, directory: str) -> list[str]:
        return [path for path in self.executor.store.list_directory(directory) if is_written_by_runs(path)]

    def _find_superseded_blocks(
        self, channel: RegisteredChannel, reading: _Readers, keep_since: int | None, points: int
    ) -> list[Block]:
        catalog, name = self.executor.catalog, channel.channel.name
        blocks = catalog.list_filled_blocks(name)
        if not find_collectable(blocks, channel.head.seq, ()):
            return []
        needs = [*self._list_cursor_needs(name, reading), *map(ReadNeed, catalog.list_active_positions(name))]
        if points:
            seqs = sorted({b.seq for b in blocks if b.seq <= channel.head.seq})
            needs.append(ReadNeed(seqs[-min(points, len(seqs))], onwards=True))
        if keep_since is not None:
            needs.append(ReadNeed(self._find_seq_at(name, keep_since), onwards=True))
        return find_collectable(blocks, channel.head.seq, needs, catalog.list_pinned_blocks(name))

    def _list_cursor_needs(self, channel: str, reading: _Readers) -> Iterator[ReadNeed]:
        """Who goes on from a cursor; a task that is no longer declared does not."""
        for cursor in self.executor.catalog.read_cursors(channel):
            if (cursor.binding, cursor.task, channel) in reading:
                yield ReadNeed(cursor.position.seq)

    def _find_seq_at(self, channel: str, version: int) -> int:
        try:
            return self.executor.catalog.read_position(channel, version=version).seq
        except errors.Collected:  # forgotten: whatever is left is newer, or leads there
            return 0


def _list_readers(bindings: Iterable[RegisteredBinding]) -> _Readers:
    return frozenset((b.name, t["name"], r["channel"]) for b in bindings for t in b.spec["tasks"] for r in t["reads"])


def _list_channels(binding: RegisteredBinding) -> set[str]:
    return {port["channel"] for task in binding.spec["tasks"] for port in _list_ports(task)}


def _list_ports(task: Json) -> Iterator[Mapping[str, str]]:
    yield from task["reads"]
    yield from task["writes"]
