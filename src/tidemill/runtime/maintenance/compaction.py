"""Compaction: runs that merge several blocks into one, without changing any content."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidemill.errors import Conflict
from tidemill.model.block import Block, BlockKind, DataFile
from tidemill.model.change import Updates
from tidemill.model.codec import Json
from tidemill.model.identity import compute_identity
from tidemill.model.run import ACTIVE_STATES, ClaimRequest, RunClaim, RunKind
from tidemill.model.view import DeltaChain, Snapshot, list_blocks
from tidemill.planner.cost import CostModel, CostTerms, ScanVolume, estimate_seconds, guess_cost_model
from tidemill.planner.graph import DataSize
from tidemill.ports.catalog import CatalogReader, ChannelQueries
from tidemill.ports.records import ChannelMergeCost
from tidemill.retention import compaction as policy
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.flow import format_directory, format_tag
from tidemill.runtime.runs.leases import Lease
from tidemill.runtime.runs.log import RunLog
from tidemill.runtime.runs.supervision import WorkTimer
from tidemill.runtime.runs.views import ChannelViews

MAJOR_COMPACTION_COST = CostTerms(start=0.3, change=3e-6, content=1.4e-6, byte=1.2e-8)
"""Estimated cost of a major compaction before the first one, as measured (docs/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class Compactor:
    """Compacts channels. The new block coexists with its source blocks until those are garbage-collected."""

    executor: Executor
    updates: Mapping[str, Updates]
    limits: policy.CompactionLimits = policy.LIMITS

    def compact_major(self, channel: str) -> Block | None:
        """Write the newest content of a channel as a base; None if it is one, or another compaction makes it one."""
        content = _read_content(self.executor.catalog, self.updates, channel)
        while content.deltas:
            try:
                return self.run_compaction(policy.MajorCompaction(content), "it was requested")
            except Conflict:  # automatic maintenance compacted the channel meanwhile
                before, content = content, _read_content(self.executor.catalog, self.updates, channel)
                if content == before:
                    raise
        return None

    def assess_compaction(self, channel: str) -> policy.CompactionVerdict:
        return assess_compaction(self.executor.catalog, self.updates, channel, self.limits)

    def is_running(self, channel: str) -> bool:
        compactions = self.executor.catalog.runs.list(subject=channel, kind=RunKind.COMPACTION)
        return any(run.state in ACTIVE_STATES for run in compactions)

    def run_compaction(self, compaction: policy.Compaction, reason: str) -> Block:
        """Do one compaction, as a run."""
        catalog, channel = self.executor.catalog, compaction.view.channel
        claim = self.executor.begin_run(RunKind.COMPACTION, channel, ClaimRequest())

        def commit(claim: RunClaim, log: RunLog, _lease: Lease) -> Block:
            self._check_blocks_exist(compaction)
            log.write_line(f"compacted because {reason}")
            timer = WorkTimer()
            block = _build_block(compaction, self._write_files(compaction.view, claim, log))
            cost_model = self._update_cost_model(compaction, block, timer.elapsed_seconds)
            return catalog.runs.commit_compaction(claim, block, log=log.text, rewrite_cost=cost_model)

        return self.executor.run_once(claim, commit)

    def _update_cost_model(self, compaction: policy.Compaction, block: Block, seconds: float) -> Json | None:
        """Return the channel's cost model of major compactions, updated with this one; None for a minor compaction."""
        if isinstance(compaction, policy.MinorCompaction):
            return None
        channel, merge_costs = compaction.view.channel, self.executor.catalog.channels.list_merge_costs()
        model = _read_rewrite_costs(merge_costs, channel)[channel]
        return model.add_run(_estimate_input(compaction.view), seconds, [DataSize(block.rows, block.bytes)]).to_json()

    def _check_blocks_exist(self, compaction: policy.Compaction) -> None:
        """Raise `Conflict` if a chosen block was collected before the run was claimed; later they stay readable."""
        existing = {b.id for b in self.executor.catalog.blocks.list_filled(compaction.view.channel)}
        if not all(b.id in existing for b in list_blocks(compaction.view)):
            channel = compaction.view.channel
            raise Conflict(f"channel {channel!r} was compacted by another process; nothing is left to do")

    def _write_files(self, view: Snapshot | DeltaChain, claim: RunClaim, log: RunLog) -> tuple[DataFile, ...]:
        shared = self._find_shared_files(view, claim)
        rest = policy.exclude_files(view, shared)
        written = self._write_view(rest, claim, log) if any(b.files for b in list_blocks(rest)) else ()
        rows, names = sum(f.rows for f in written), len(view.deltas)
        log.write_line(f"{names} deltas of {view.channel}: {rows} rows written, {len(shared)} files shared")
        return (*sorted(shared, key=lambda f: f.path), *written)

    def _find_shared_files(self, view: Snapshot | DeltaChain, claim: RunClaim) -> frozenset[DataFile]:
        shared = policy.find_sharable_files(view, self.limits)
        if not shared or isinstance(view, DeltaChain) or not policy.must_merge(view):
            return shared
        touched = self.executor.engine.find_touched_files(view, tag=format_tag(claim.run))
        return frozenset(f for f in shared if f.path not in touched)

    def _write_view(self, view: Snapshot | DeltaChain, claim: RunClaim, log: RunLog) -> tuple[DataFile, ...]:
        directory = format_directory(claim, 0)
        staged, count = self.executor.store.stage_directory(directory), policy.compute_file_count(view, self.limits)
        rows = self.executor.engine.write_view(view, staged, files=count, tag=format_tag(claim.run), log=log)
        for step in log.take_steps():
            log.write_line(f"place: {step.place} ({step.reason})")
        return self.executor.store.publish_files(directory, rows)


def assess_compaction(
    catalog: CatalogReader,
    updates: Mapping[str, Updates],
    channel: str,
    limits: policy.CompactionLimits = policy.LIMITS,
) -> policy.CompactionVerdict:
    """Decide which compaction is due on a channel, and why."""
    content = _read_content(catalog, updates, channel)
    return policy.choose_compaction(content, _compute_balance(catalog.channels, content), limits)


def explain_compaction(catalog: CatalogReader, updates: Mapping[str, Updates], channel: str) -> str | None:
    """Describe the decision; None if nothing was written to the channel yet."""
    written = catalog.channels.read(channel).channel.schema is not None
    return str(assess_compaction(catalog, updates, channel)) if written else None


def _read_content(catalog: CatalogReader, updates: Mapping[str, Updates], channel: str) -> Snapshot:
    return ChannelViews(catalog, updates).build_snapshot(channel, catalog.channels.read(channel).head.seq)


def _compute_balance(channels: ChannelQueries, content: Snapshot) -> policy.MergeBalance:
    """Compare the cost that readers have paid for merging a channel with the estimated cost of a new base."""
    merge_costs = {m.channel: m for m in channels.list_merge_costs()}
    merge_cost = merge_costs.get(content.channel, ChannelMergeCost(content.channel))
    models = _read_rewrite_costs(merge_costs.values(), content.channel)
    rewrite_seconds = estimate_seconds(content.channel, models, _estimate_input(content))
    return policy.MergeBalance(merge_cost.reads, merge_cost.seconds, rewrite_seconds, merge_cost.interactive_reads)


def _read_rewrite_costs(merge_costs: Iterable[ChannelMergeCost], channel: str) -> dict[str, CostModel]:
    """Return cost models of major compactions, by channel: for this one a default at least."""
    fitted = {m.channel: CostModel.from_json(m.rewrite_cost) for m in merge_costs if m.rewrite_cost is not None}
    return {channel: guess_cost_model(MAJOR_COMPACTION_COST, 1.0)} | fitted


def _estimate_input(content: Snapshot) -> ScanVolume:
    """Estimate the volume of a major compaction; the cost model fits the savings by shared files, unknown yet."""
    base = content.base
    rows, size = (0, 0) if base is None else (base.rows, base.bytes)
    return ScanVolume(sum(d.rows for d in content.deltas), rows, size + sum(d.bytes for d in content.deltas))


def _build_block(compaction: policy.Compaction, files: tuple[DataFile, ...]) -> Block:
    match compaction:
        case policy.MajorCompaction(view):
            return Block(0, view.channel, view.at, BlockKind.BASE, view.schema, files=files)
        case policy.MinorCompaction(before, view):
            position = (view.channel, view.upto, BlockKind.DELTA)
            identity = compute_identity("fold", [d.identity for d in view.deltas])
            block = Block(0, *position, view.schema, view.since, view.updates, files, identity=identity)
            return replace(block, source=before.channel_provenance)
