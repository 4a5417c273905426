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
from tidemill.model.block import Block, Kind
from tidemill.model.codec import Json
from tidemill.model.run import TO_COME, UNDER_WAY
from tidemill.model.store import Grace, RemovalKind, is_written_by_runs
from tidemill.ports.records import Forgotten, RegisteredBinding, RegisteredChannel
from tidemill.retention.garbage_collection import Need, collectable
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.runtime.maintenance.store_ownership import check_not_rolled_back, check_store
from tidemill.runtime.runs.execution import Executor

GoOn = Callable[[], bool]

FILES = 500
"""So many paths are removed at most before it is asked again whether to go on."""

_Readers = frozenset[tuple[str, str, str]]
"""Which task of which bound flow reads which channel."""


def to_the_end() -> bool:
    """Whoever asked for it waits for it, too."""
    return True


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection removed."""

    blocks: int
    files: int  # removed from the store
    reclaimed: int = 0  # runs whose lease had expired
    marked: int = 0  # files that will be removed after their grace time


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a listing of the whole store found."""

    attempts: int  # directories
    marked: int  # files that nothing names, in directories of attempts of this catalog that are over
    unknown: int  # directories of attempts that the catalog does not know and of which it names nothing: left alone


@dataclass(frozen=True, slots=True)
class Tidied:
    """What tidying did. A problem is an error that kept a compaction or a removal from being done."""

    folded: tuple[Block, ...] = ()
    rebased: tuple[Block, ...] = ()
    collected: Collected = Collected(0, 0)
    forgotten: Forgotten = Forgotten()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Janitor:
    """Does what nobody waits for. Every step leaves the store readable, wherever it is interrupted."""

    executor: Executor
    go_on: GoOn = to_the_end
    grace: Grace = Grace()

    def tidy(
        self,
        channels: Iterable[str],
        compactor: Compactor,
        *,
        history: int,
        points: int = 0,
        keep_since: int | None = None,
    ) -> Tidied:
        """Do on these channels what is due, and remove what is due anywhere; a few queries a channel if nothing is."""
        names, problems = set(channels), list[str]()
        written = [c for c in self.executor.catalog.channels() if c.channel.name in names and c.head.seq > 0]
        made = [block for c in written for block in self._compacted(c.channel.name, compactor, problems)]
        collected = self._collect(written, keep_since, points)
        collected = replace(collected, files=self._removed(problems))
        return Tidied(
            folded=tuple(b for b in made if b.kind is Kind.DELTA),
            rebased=tuple(b for b in made if b.kind is Kind.BASE),
            collected=collected,
            forgotten=self.forget(names, history),
            problems=tuple(problems),
        )

    def collect(self, keep_since: int | None = None) -> Collected:
        """Give up expired runs, hide blocks that nobody can need, and remove files that were marked long enough ago.

        With `keep_since` (microseconds since the epoch) every content from then on stays readable.
        """
        reclaimed = self.executor.catalog.reclaim()
        gone = self._collect(self.executor.catalog.channels(), keep_since)
        return replace(gone, files=self.remove(), reclaimed=len(reclaimed))

    def remove(self) -> int:
        """Remove what was marked long enough ago, a piece at a time; returns how many files were there.

        What nothing names when it is marked, nothing ever names again: no two attempts share a directory, and a
        compaction may only share files that a block names.
        """
        catalog, removed = self.executor.catalog, 0
        while self.go_on() and (due := catalog.list_due_removals(self.grace, FILES)):
            check_store(catalog, self.executor.store)
            removed += self._delete(r.path for r in due if r.kind is not RemovalKind.ATTEMPT)
            removed += self._delete_attempts([r.path for r in due if r.kind is RemovalKind.ATTEMPT])
            catalog.finish_removals([r.path for r in due])
        return removed

    def drop_copies(self) -> int:
        """Delete this machine's copies of files that are no longer in use; of a store that has no copies, none."""
        catalog, store = self.executor.catalog, self.executor.store
        copies = store.list_copies()  # before asking the catalog: later ones are not judged
        if not copies or not self.go_on():
            return 0
        active, used = catalog.active_directories(), catalog.named_files() | catalog.list_marked()
        return store.drop_copies(p for p in copies if p not in used and not any(p.startswith(f"{d}/") for d in active))

    def scan(self) -> Scanned:
        """List the whole store, and mark the files that nothing names and that attempts of this catalog left.

        Only directories of attempts that the catalog knows to be over are looked into.
        """
        catalog, store = self.executor.catalog, self.executor.store
        check_store(catalog, store)
        check_not_rolled_back(catalog, store)
        attempts = list(store.list_attempts(store.list_runs()))
        known, going = catalog.find_attempts(attempts), catalog.list_marked()
        over = {d: r.id for d, r in known.items() if r.state not in (*TO_COME, *UNDER_WAY) and d not in going}
        named = catalog.named_files()  # of an attempt that is over nothing is named later that is not named now
        marked = sum(self._mark_unnamed(directory, run, named) for directory, run in over.items() if self.go_on())
        in_use = {"/".join(path.split("/")[:3]) for path in named}
        unknown = set(attempts) - known.keys() - going - in_use
        return Scanned(len(attempts), marked, len(unknown))

    def forget(self, channels: Iterable[str], history: int) -> Forgotten:
        """Forget all but the newest runs that are about these channels: inserts, compactions, and flows on them."""
        names = set(channels)
        flows = {b.name for b in self.executor.catalog.bindings() if names & _channels_of(b)}
        crowded = self.executor.catalog.crowded(names | flows, keep=history)
        forgotten = (self.executor.catalog.forget(subject, keep=history) for subject in crowded if self.go_on())
        return sum(forgotten, start=Forgotten())

    def _compacted(self, channel: str, compactor: Compactor, problems: list[str]) -> Iterator[Block]:
        """Compact until nothing is due: folding may complete the next level. Who else does it is left to it."""
        try:
            while (due := compactor.judged(channel)).wanted and not compactor.under_way(channel) and self.go_on():
                yield compactor.make(due.wanted, due.why)
        except Conflict:
            return
        except TidemillError as error:
            problems.append(f"{channel} was not compacted: {error}")

    def _collect(self, channels: Iterable[RegisteredChannel], keep_since: int | None, points: int = 0) -> Collected:
        catalog = self.executor.catalog
        reading = _readers(catalog.bindings())
        gone = sum(self._hidden(self._superseded(c, reading, keep_since, points)) for c in channels)
        return Collected(gone, 0, marked=len(catalog.purge()) if self.go_on() else 0)

    def _hidden(self, blocks: list[Block]) -> int:
        """Collect blocks of one channel; somebody else may do the same."""
        try:
            return self.executor.catalog.collect(b.id for b in blocks) if blocks and self.go_on() else 0
        except Conflict:
            return 0

    def _removed(self, problems: list[str]) -> int:
        try:
            return self.remove()
        except StorageError as error:
            problems.append(f"files were not removed: {error}")
            return 0

    def _delete(self, paths: Iterable[str]) -> int:
        wanted = list(paths)
        return self.executor.store.delete(wanted) if wanted else 0

    def _delete_attempts(self, directories: Sequence[str]) -> int:
        """Of an attempt without a result nothing is ever named; were it otherwise, that would stay."""
        store = self.executor.store
        found = [path for directory in directories for path in self._list_written(directory)]
        named = self.executor.catalog.list_named(found)
        count = self._delete(path for path in found if path not in named)
        for directory in directories:
            store.prune(directory)
        return count

    def _mark_unnamed(self, directory: str, run: int, named: Collection[str]) -> int:
        unnamed = [path for path in self._list_written(directory) if path not in named]
        return self.executor.catalog.mark_orphans(run, unnamed) if unnamed else 0

    def _list_written(self, directory: str) -> list[str]:
        return [path for path in self.executor.store.list_directory(directory) if is_written_by_runs(path)]

    def _superseded(
        self, channel: RegisteredChannel, reading: _Readers, keep_since: int | None, points: int
    ) -> list[Block]:
        catalog, name = self.executor.catalog, channel.channel.name
        blocks = catalog.filled(name)
        if not collectable(blocks, channel.head.seq, ()):
            return []
        needs = [*self._consumers(name, reading), *map(Need, catalog.points(name))]
        if points:
            seqs = sorted({b.seq for b in blocks if b.seq <= channel.head.seq})
            needs.append(Need(seqs[-min(points, len(seqs))], onwards=True))
        if keep_since is not None:
            needs.append(Need(self._seq_at(name, keep_since), onwards=True))
        return collectable(blocks, channel.head.seq, needs, catalog.held(name))

    def _consumers(self, channel: str, reading: _Readers) -> Iterator[Need]:
        """Who goes on from a cursor; a task that is no longer declared does not."""
        for cursor in self.executor.catalog.cursors(channel):
            if (cursor.binding, cursor.task, channel) in reading:
                yield Need(cursor.position.seq)

    def _seq_at(self, channel: str, version: int) -> int:
        try:
            return self.executor.catalog.position(channel, version=version).seq
        except errors.Collected:  # forgotten: whatever is left is newer, or leads there
            return 0


def _readers(bindings: Iterable[RegisteredBinding]) -> _Readers:
    return frozenset((b.name, t["name"], r["channel"]) for b in bindings for t in b.spec["tasks"] for r in t["reads"])


def _channels_of(binding: RegisteredBinding) -> set[str]:
    return {port["channel"] for task in binding.spec["tasks"] for port in _ports(task)}


def _ports(task: Json) -> Iterator[Mapping[str, str]]:
    yield from task["reads"]
    yield from task["writes"]
