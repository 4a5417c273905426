"""Keeping house: compaction where it is due, collection, forgetting, and sweeping what crashed runs left behind.

All of it is done in small steps, each of which can be the last: before one begins, `go_on` is asked. What is left then
is as due as before, and done the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidemill import errors
from tidemill.errors import Conflict, TidemillError
from tidemill.model.block import Block, Kind
from tidemill.model.codec import Json
from tidemill.records import Forgotten, RegisteredBinding, RegisteredChannel
from tidemill.retain.collection import Need, collectable
from tidemill.runtime.compaction import Compactor
from tidemill.runtime.execute import Executor

GoOn = Callable[[], bool]

FILES = 500
"""So many files are deleted at most before it is asked again whether to go on."""

_Readers = frozenset[tuple[str, str, str]]
"""Which task of which bound flow reads which channel."""


def to_the_end() -> bool:
    """Whoever asked for it waits for it, too."""
    return True


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection removed."""

    blocks: int
    files: int
    reclaimed: int = 0  # runs whose lease had expired


@dataclass(frozen=True, slots=True)
class Tidied:
    """What tidying did. A problem is an error that kept a compaction from being done; its run has the log."""

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

    def tidy(
        self,
        channels: Iterable[str],
        compactor: Compactor,
        *,
        history: int,
        points: int = 0,
        keep_since: int | None = None,
    ) -> Tidied:
        """Do on these channels what is due; a few queries a channel if nothing is.

        Files that a crash left behind stay for `collect`, since finding them takes a listing of the store.
        """
        names, problems = set(channels), list[str]()
        written = [c for c in self.executor.catalog.channels() if c.channel.name in names and c.head.seq > 0]
        made = [block for c in written for block in self._compacted(c.channel.name, compactor, problems)]
        collected = self._collect(written, keep_since, points)
        return Tidied(
            folded=tuple(b for b in made if b.kind is Kind.DELTA),
            rebased=tuple(b for b in made if b.kind is Kind.BASE),
            collected=collected,
            forgotten=self.forget(names, history),
            problems=tuple(problems),
        )

    def collect(self, keep_since: int | None = None) -> Collected:
        """Remove what nobody can need: expired runs' slots, blocks that were superseded, files that no block names.

        With `keep_since` (microseconds since the epoch) every content from then on stays readable.
        """
        reclaimed = self.executor.catalog.reclaim()
        gone = self._collect(self.executor.catalog.channels(), keep_since)
        return Collected(gone.blocks, gone.files + self.sweep(), len(reclaimed))

    def sweep(self) -> int:
        """Delete files that no block names and no running attempt may still commit."""
        present = list(self.executor.store.listing())  # before asking the catalog: later files are not judged
        active = self.executor.catalog.active_directories()
        named = self.executor.catalog.named_files()
        orphans = [p for p in present if p not in named and not any(p.startswith(f"{d}/") for d in active)]
        return self._delete(orphans)

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
        return Collected(gone, self._delete(catalog.purge()) if self.go_on() else 0)

    def _hidden(self, blocks: list[Block]) -> int:
        """Collect blocks of one channel; somebody else may do the same."""
        try:
            return self.executor.catalog.collect(b.id for b in blocks) if blocks and self.go_on() else 0
        except Conflict:
            return 0

    def _delete(self, paths: Sequence[str]) -> int:
        """What is left, because it was not to go on, no block names any longer: sweeping finds it."""
        parts = (paths[at : at + FILES] for at in range(0, len(paths), FILES))
        return sum(self.executor.store.delete(part) for part in parts if self.go_on())

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
