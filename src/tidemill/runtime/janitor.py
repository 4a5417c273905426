"""Keeping storage in order: compaction, garbage collection, and sweeping what crashed runs left behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidemill.model.block import Block, Kind
from tidemill.model.change import Updates
from tidemill.model.run import Claim, Demand, RunKind, RunState
from tidemill.model.task import Mode
from tidemill.ports import RegisteredChannel
from tidemill.retain.collection import Need, collectable
from tidemill.runtime.execute import Executor
from tidemill.runtime.lease import Lease
from tidemill.runtime.log import RunLog
from tidemill.runtime.perform import directory_of, tag_of
from tidemill.runtime.views import Views


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection removed."""

    blocks: int
    files: int
    reclaimed: int  # runs whose lease had expired


@dataclass(frozen=True, slots=True)
class Janitor:
    """Does what nobody waits for. Every step leaves the store readable, wherever it is interrupted."""

    executor: Executor

    def compact(self, channel: str, updates: Mapping[str, Updates]) -> Block | None:
        """Memoise the newest content of a channel as a base; None if it is one already."""
        catalog = self.executor.catalog
        head = catalog.channel(channel).head.seq
        view = Views(catalog, updates).snapshot(channel, head)
        if not view.deltas:
            return None
        run = catalog.request(RunKind.COMPACTION, channel)
        claim = catalog.claim(run.id, Demand(), owner=self.executor.owner, lease=self.executor.lease)

        def commit(claim: Claim, log: RunLog, _lease: Lease) -> Block:
            directory = directory_of(claim, 0)
            self.executor.engine.write_view(view, self.executor.store.stage(directory), tag=tag_of(claim))
            files = self.executor.store.publish(directory)
            log.say(f"{len(view.deltas)} deltas of {channel} merged into a base at {head}")
            return catalog.compacted(claim, Block(0, channel, head, Kind.BASE, view.schema, files=files), log=log.text)

        return self.executor.once(claim, commit)

    def collect(self, keep_since: int | None = None) -> Collected:
        """Remove what nobody can need: expired runs' slots, blocks that were superseded, files that no block names.

        With `keep_since` (microseconds since the epoch) every content from then on stays readable.
        """
        catalog = self.executor.catalog
        reclaimed = catalog.reclaim()
        gone = [b for c in catalog.channels() for b in self._superseded(c, keep_since)]
        catalog.collect(b.id for b in gone)
        files = self.executor.store.delete(catalog.purge())
        return Collected(len(gone), files + self.sweep(), len(reclaimed))

    def sweep(self) -> int:
        """Delete files that no block names and no running attempt may still commit."""
        present = list(self.executor.store.listing())  # before asking the catalog: later files are not judged
        active = self.executor.catalog.active_directories()
        named = self.executor.catalog.named_files()
        orphans = [p for p in present if p not in named and not any(p.startswith(f"{d}/") for d in active)]
        return self.executor.store.delete(orphans)

    def _superseded(self, channel: RegisteredChannel, keep_since: int | None) -> list[Block]:
        catalog = self.executor.catalog
        name = channel.channel.name
        needs = [*self._consumers(name), *self._running(name)]
        if keep_since is not None:
            needs.append(Need(catalog.position(name, version=keep_since).seq, snapshot=True))
        return collectable(catalog.filled(name), channel.head.seq, needs)

    def _consumers(self, channel: str) -> Iterator[Need]:
        """Who goes on from a cursor; a task that is no longer declared does not."""
        reading = {
            (b.name, t["name"]): {r["mode"] for r in t["reads"] if r["channel"] == channel}
            for b in self.executor.catalog.bindings()
            for t in b.spec["tasks"]
        }
        for cursor in self.executor.catalog.cursors(channel):
            modes = reading.get((cursor.binding, cursor.task), set())
            if modes:
                yield Need(cursor.position.seq, snapshot=Mode.OLD in modes)

    def _running(self, channel: str) -> Iterator[Need]:
        """What runs that are under way may read: the content as it was when they were claimed."""
        for run in self.executor.catalog.runs(state=RunState.RUNNING, limit=10_000):
            yield Need(self.executor.catalog.position(channel, version=run.fence).seq, snapshot=True)
