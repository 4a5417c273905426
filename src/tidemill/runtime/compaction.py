"""Compaction: runs that make one block of several, and change nothing that anybody reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import Conflict
from tidemill.model.block import Block, File, Kind
from tidemill.model.change import Updates
from tidemill.model.identity import identity
from tidemill.model.run import UNDER_WAY, Claim, Demand, RunKind
from tidemill.model.view import Chain, Snapshot, blocks_of
from tidemill.retain.compaction import (
    LIMITS,
    Compaction,
    Fold,
    Limits,
    Rebase,
    due,
    file_count,
    must_merge,
    sharable,
    without,
)
from tidemill.runtime.execute import Executor
from tidemill.runtime.lease import Lease
from tidemill.runtime.log import RunLog
from tidemill.runtime.perform import directory_of, tag_of
from tidemill.runtime.views import Views


@dataclass(frozen=True, slots=True)
class Compactor:
    """Compacts channels. The new block stands beside those it was made of, until these are collected."""

    executor: Executor
    updates: Mapping[str, Updates]
    limits: Limits = LIMITS

    def rebase(self, channel: str) -> Block | None:
        """Memoise the newest content of a channel as a base; None if it is one already."""
        content = self._content(channel)
        return self.make(Rebase(content)) if content.deltas else None

    def due(self, channel: str) -> Compaction | None:
        return due(self._content(channel), self.limits)

    def under_way(self, channel: str) -> bool:
        known = self.executor.catalog.runs(subject=channel)
        running = [r for r in known if r.state in UNDER_WAY]
        return any(run.kind is RunKind.COMPACTION for run in running)

    def make(self, wanted: Compaction) -> Block:
        """Do one compaction, as a run."""
        catalog, channel = self.executor.catalog, wanted.view.channel
        run = catalog.request(RunKind.COMPACTION, channel)
        claim = catalog.claim(run.id, Demand(), owner=self.executor.owner, lease=self.executor.lease)

        def commit(claim: Claim, log: RunLog, _lease: Lease) -> Block:
            self._check_there(wanted)
            made = _made(wanted, self._files(wanted.view, claim, log))
            return catalog.compacted(claim, made, log=log.text)

        return self.executor.once(claim, commit)

    def _content(self, channel: str) -> Snapshot:
        head = self.executor.catalog.channel(channel).head.seq
        return Views(self.executor.catalog, self.updates).snapshot(channel, head)

    def _check_there(self, wanted: Compaction) -> None:
        """What is there once the run is claimed stays readable to its end; what was chosen may have gone before."""
        there = {b.id for b in self.executor.catalog.filled(wanted.view.channel)}
        if not all(b.id in there for b in blocks_of(wanted.view)):
            raise Conflict(f"channel {wanted.view.channel!r} was compacted by somebody else; there is nothing to do")

    def _files(self, view: Snapshot | Chain, claim: Claim, log: RunLog) -> tuple[File, ...]:
        shared = self._shared(view, claim)
        rest = without(view, shared)
        written = self._written(rest, claim) if any(b.files for b in blocks_of(rest)) else ()
        rows, names = sum(f.rows for f in written), len(view.deltas)
        log.say(f"{names} deltas of {view.channel}: {rows} rows written, {len(shared)} files shared")
        return (*sorted(shared, key=lambda f: f.path), *written)

    def _shared(self, view: Snapshot | Chain, claim: Claim) -> frozenset[File]:
        shared = sharable(view, self.limits)
        if not shared or isinstance(view, Chain) or not must_merge(view):
            return shared
        touched = self.executor.engine.touched(view, tag=tag_of(claim.run))
        return frozenset(f for f in shared if f.path not in touched)

    def _written(self, view: Snapshot | Chain, claim: Claim) -> tuple[File, ...]:
        directory = directory_of(claim, 0)
        staged, count = self.executor.store.stage(directory), file_count(view, self.limits)
        self.executor.engine.write_view(view, staged, files=count, tag=tag_of(claim.run))
        return self.executor.store.publish(directory)


def _made(wanted: Compaction, files: tuple[File, ...]) -> Block:
    match wanted:
        case Rebase(view):
            return Block(0, view.channel, view.at, Kind.BASE, view.schema, files=files)
        case Fold(before, view):
            return Block(
                0,
                view.channel,
                view.upto,
                Kind.DELTA,
                view.schema,
                view.since,
                view.updates,
                files,
                source=before.reached,
                identity=identity("fold", [d.identity for d in view.deltas]),
            )
