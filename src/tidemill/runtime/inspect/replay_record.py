"""Records the workload of a real system in the form that the simulator replays under other policies."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tidemill.errors import NotFound
from tidemill.model.channel import ChannelRole
from tidemill.model.run import Run, RunKind, RunState
from tidemill.ports.catalog import CatalogReader, RunQueries
from tidemill.ports.records import FlowStatistics
from tidemill.sim.staleness.replay import RecordedTable

RECENT_RUNS = 100
"""Newest finished runs of a flow that are read."""


def build_replay_records(catalog: CatalogReader, since: float = 0.0) -> dict[str, RecordedTable]:
    """Build a record of each flow that ran since then: arrivals on its inputs, and the data and seconds of its runs.

    A run loads the data that arrived between the start of the previous run and its own.
    """
    statistics = catalog.flows.read_statistics()
    runs = {name: _read_runs(catalog.runs, name, since) for name in statistics}
    recorded = {name: f for name, f in statistics.items() if len(runs[name]) > 1}
    if not recorded:
        raise NotFound("no flow has run twice recently, so there is nothing to replay; let servers run for a while")
    inputs = [c.channel.name for c in catalog.channels.list() if c.channel.role is ChannelRole.INPUT]
    found = catalog.channels.list_versions(dict.fromkeys(inputs, int(since * 1e6)))
    arrivals = {c: [v / 1e6 for v in versions] for c, versions in found.items()}
    reads = {b.name: b.read_channels for b in catalog.flows.list()}
    records = {name: _build_record(recorded, f, runs[name], reads[name], arrivals) for name, f in recorded.items()}
    return {name: record for name, record in records.items() if record.batches or record.parents}


def _read_runs(runs: RunQueries, flow: str, since: float) -> list[Run]:
    finished = runs.list(subject=flow, state=RunState.FINISHED, limit=RECENT_RUNS)
    matching = (r for r in finished if r.kind is RunKind.FLOW and r.stats.get("tasks") and (r.started or 0.0) >= since)
    return sorted(matching, key=lambda r: r.started or 0.0)


def _build_record(
    recorded: Mapping[str, FlowStatistics],
    statistics: FlowStatistics,
    runs: Sequence[Run],
    reads: set[str],
    arrivals: Mapping[str, Sequence[float]],
) -> RecordedTable:
    times = [(r.started or 0.0, (r.finished or 0.0) - (r.started or 0.0)) for r in runs]
    loaded = [(later - earlier, seconds) for (earlier, _), (later, seconds) in pairwise(times)]
    parents = tuple(p for p in statistics.parents if p in recorded)
    arrival_times = sorted({time for channel in reads for time in arrivals.get(channel, ())}) if not parents else []
    return RecordedTable([(time, time) for time in arrival_times], loaded, statistics.priority, parents)
