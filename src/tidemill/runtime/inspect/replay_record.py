"""What a real system went through, in the form in which the simulator replays it under other policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tidemill.errors import NotFound
from tidemill.model.channel import ChannelRole
from tidemill.model.run import Run, RunKind, RunState
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import FlowStatistics, RegisteredBinding
from tidemill.sim.staleness.replay import RecordedTable

RUNS = 100
"""Newest finished runs of a flow that are looked at."""


def build_replay_records(catalog: CatalogReader, since: float = 0.0) -> dict[str, RecordedTable]:
    """Of each flow that ran since then: arrivals on the inputs that it reads, how much its runs loaded and took.

    A run loads what arrived between the beginning of the one before and its own.
    """
    facts = catalog.read_flow_statistics()
    ran = {name: _read_runs(catalog, name, since) for name in facts}
    known = {name: f for name, f in facts.items() if len(ran[name]) > 1}
    if not known:
        raise NotFound("no flow has run twice lately, so there is nothing to replay; let servers run for a while")
    inputs = [c.channel.name for c in catalog.list_channels() if c.channel.role is ChannelRole.INPUT]
    arrived = {c: [v / 1e6 for v in catalog.list_versions(c, int(since * 1e6))] for c in inputs}
    reads = {b.name: _list_read_channels(b) for b in catalog.list_bindings()}
    found = {name: _build_record(known, f, ran[name], reads[name], arrived) for name, f in known.items()}
    return {name: of for name, of in found.items() if of.batches or of.parents}


def _read_runs(catalog: CatalogReader, flow: str, since: float) -> list[Run]:
    ended = catalog.list_runs(subject=flow, state=RunState.FINISHED, limit=RUNS)
    wanted = (r for r in ended if r.kind is RunKind.FLOW and r.stats.get("tasks") and (r.started or 0.0) >= since)
    return sorted(wanted, key=lambda r: r.started or 0.0)


def _build_record(
    known: Mapping[str, FlowStatistics],
    facts: FlowStatistics,
    runs: Sequence[Run],
    reads: set[str],
    arrived: Mapping[str, Sequence[float]],
) -> RecordedTable:
    times = [(r.started or 0.0, (r.finished or 0.0) - (r.started or 0.0)) for r in runs]
    loaded = [(later - earlier, took) for (earlier, _), (later, took) in pairwise(times)]
    parents = tuple(p for p in facts.parents if p in known)
    moments = sorted({at for channel in reads for at in arrived.get(channel, ())}) if not parents else []
    return RecordedTable([(at, at) for at in moments], loaded, facts.priority, parents)


def _list_read_channels(binding: RegisteredBinding) -> set[str]:
    return {r["channel"] for t in binding.spec["tasks"] for r in t["reads"]}
