"""Keeping storage in order: compaction, garbage collection, and sweeping what crashed runs left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.model.block import Block, Kind
from tidemill.model.change import Updates
from tidemill.model.run import Claim, Demand, RunKind
from tidemill.model.task import Mode
from tidemill.ports import RegisteredBinding, RegisteredChannel
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
        bindings = catalog.bindings()
        gone = [b for c in catalog.channels() for b in self._superseded(c, bindings, keep_since)]
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

    def _superseded(
        self, channel: RegisteredChannel, bindings: list[RegisteredBinding], keep_since: int | None
    ) -> list[Block]:
        catalog = self.executor.catalog
        name = channel.channel.name
        needs = [
            Need(c.position.seq, snapshot=_reads_old(bindings, c.binding, c.task, name)) for c in catalog.cursors(name)
        ]
        if keep_since is not None:
            needs.append(Need(catalog.position(name, version=keep_since).seq, snapshot=True))
        return collectable(catalog.filled(name), channel.head.seq, needs)


def _reads_old(bindings: list[RegisteredBinding], binding: str, task: str, channel: str) -> bool:
    """Does this consumer also read the content that its change starts from?"""
    for spec in (b.spec for b in bindings if b.name == binding):
        for reads in (t["reads"] for t in spec["tasks"] if t["name"] == task):
            return any(r["channel"] == channel and r["mode"] == Mode.OLD for r in reads)
    return False
