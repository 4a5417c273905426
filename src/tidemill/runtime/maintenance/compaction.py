"""Compaction: runs that make one block of several, and change nothing that anybody reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.errors import Conflict
from tidemill.model.block import Block, File, Kind
from tidemill.model.change import Updates
from tidemill.model.codec import Json
from tidemill.model.identity import identity
from tidemill.model.run import UNDER_WAY, Claim, Demand, RunKind
from tidemill.model.view import Chain, Snapshot, blocks_of
from tidemill.planner.cost import Learnt, Looked, Terms, guessed, seconds
from tidemill.planner.graph import Size
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import Merging
from tidemill.retention.compaction import (
    LIMITS,
    Balance,
    Compaction,
    Fold,
    Limits,
    Rebase,
    Verdict,
    file_count,
    judged,
    must_merge,
    sharable,
    without,
)
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.flow import directory_of, tag_of
from tidemill.runtime.runs.lease import Lease
from tidemill.runtime.runs.log import RunLog
from tidemill.runtime.runs.supervision import Timer
from tidemill.runtime.runs.views import Views

REWRITING = Terms(start=0.3, change=3e-6, content=1.4e-6, byte=1.2e-8)
"""What a new base costs before any was made, by what was measured (docs/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class Compactor:
    """Compacts channels. The new block stands beside those it was made of, until these are collected."""

    executor: Executor
    updates: Mapping[str, Updates]
    limits: Limits = LIMITS

    def rebase(self, channel: str) -> Block | None:
        """Memoise the newest content of a channel as a base; None if it is one already."""
        content = _content(self.executor.catalog, self.updates, channel)
        return self.make(Rebase(content), "somebody asked for it") if content.deltas else None

    def judged(self, channel: str) -> Verdict:
        return verdict(self.executor.catalog, self.updates, channel, self.limits)

    def under_way(self, channel: str) -> bool:
        known = self.executor.catalog.runs(subject=channel)
        running = [r for r in known if r.state in UNDER_WAY]
        return any(run.kind is RunKind.COMPACTION for run in running)

    def make(self, wanted: Compaction, why: str) -> Block:
        """Do one compaction, as a run."""
        catalog, channel = self.executor.catalog, wanted.view.channel
        claim = self.executor.begin(RunKind.COMPACTION, channel, Demand())

        def commit(claim: Claim, log: RunLog, _lease: Lease) -> Block:
            self._check_there(wanted)
            log.say(f"compacted because {why}")
            timer = Timer(self.executor.engine)
            made = _made(wanted, self._files(wanted.view, claim, log))
            rewriting = self._learnt(wanted, made, timer.seconds)
            return catalog.compacted(claim, made, log=log.text, rewriting=rewriting)

        return self.executor.once(claim, commit)

    def _learnt(self, wanted: Compaction, made: Block, seconds: float) -> Json | None:
        """What is known of the cost of a base on this channel, once another was made; None of a fold."""
        if isinstance(wanted, Fold):
            return None
        known = _rewriting(self.executor.catalog.merging(), wanted.view.channel)[wanted.view.channel]
        return known.after(_looked(wanted.view), seconds, [Size(made.rows, made.bytes)]).to_json()

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
        rows = self.executor.engine.write_view(view, staged, files=count, tag=tag_of(claim.run))
        return self.executor.store.publish(directory, rows)


def verdict(catalog: CatalogReader, updates: Mapping[str, Updates], channel: str, limits: Limits = LIMITS) -> Verdict:
    """What is due on a channel, and why that or nothing is."""
    content = _content(catalog, updates, channel)
    return judged(content, _balance(catalog, content), limits)


def said(catalog: CatalogReader, updates: Mapping[str, Updates], channel: str) -> str | None:
    """The verdict in words; None if nothing was written to the channel yet."""
    written = catalog.channel(channel).channel.schema is not None
    return str(verdict(catalog, updates, channel)) if written else None


def _content(catalog: CatalogReader, updates: Mapping[str, Updates], channel: str) -> Snapshot:
    return Views(catalog, updates).snapshot(channel, catalog.channel(channel).head.seq)


def _balance(catalog: CatalogReader, content: Snapshot) -> Balance:
    """What readers have paid for merging a channel, against what a new base would cost by what those so far did."""
    known = {m.channel: m for m in catalog.merging()}
    found = known.get(content.channel, Merging(content.channel))
    price = seconds(content.channel, _rewriting(known.values(), content.channel), _looked(content))
    return Balance(found.reads, found.paid, price, found.asked)


def _rewriting(known: Iterable[Merging], channel: str) -> dict[str, Learnt]:
    """What is known of the cost of a base, by channel: of this one a guess at least."""
    learnt = {m.channel: Learnt.from_json(m.rewriting) for m in known if m.rewriting is not None}
    return {channel: guessed(REWRITING, 1.0)} | learnt


def _looked(content: Snapshot) -> Looked:
    """Shared files are not known yet; what is usually spared by them is learnt along with the rest."""
    base = content.base
    rows, size = (0, 0) if base is None else (base.rows, base.bytes)
    return Looked(sum(d.rows for d in content.deltas), rows, size + sum(d.bytes for d in content.deltas))


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
