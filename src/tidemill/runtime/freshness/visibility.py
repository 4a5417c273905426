"""Reads the recent history of visibility from the catalog, from which staleness is computed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tidemill.model.channel import ChannelRole
from tidemill.model.provenance import Pathway
from tidemill.model.time import Version
from tidemill.ports.catalog import BlockQueries, CatalogReader
from tidemill.ports.records import Event, RegisteredBinding
from tidemill.runtime.freshness.staleness import StalenessHistory, VisibleProvenance
from tidemill.runtime.freshness.watermarks import BLOCKS, find_newest_versions, read_watermarks
from tidemill.runtime.inspect.status import ProjectStatus, find_pathways

ADVANCED = "channel.advanced"
EVENTS = 5000
"""Newest events that are read."""


def read_history(catalog: CatalogReader, status: ProjectStatus, events: Iterable[Event]) -> StalenessHistory:
    """Read the history: events record when a derived channel advanced, and blocks which versions it reflected."""
    advances = _group_advances(events)
    inputs, tables = _list_names(status, ChannelRole.INPUT), _list_names(status, ChannelRole.DERIVED)
    bindings = catalog.flows.list()
    watermarks = read_watermarks(catalog.blocks, bindings)
    pathways = find_pathways([c.registered for c in status.channels], bindings)
    untimed = {
        name: {p: 0 for p in pathways.get(name, ()) if not watermarks.has_event_time(name, p)} for name in tables
    }
    return StalenessHistory(
        {n: sorted({b.version for b in catalog.blocks.list(n, BLOCKS) if b.version is not None}) for n in inputs},
        {name: _read_visible_provenance(catalog.blocks, name, advances[name], untimed[name]) for name in tables},
        _compute_weights(bindings, set(tables)),
        watermarks,
    )


def _compute_weights(bindings: Iterable[RegisteredBinding], tables: set[str]) -> dict[str, float]:
    """Return the weights of tables, by name: the tables of one flow share its priority."""
    weights: dict[str, float] = {}
    for binding in bindings:
        written = binding.written_channels & tables
        weights |= {table: binding.priority / len(written) for table in written}
    return weights


def _list_names(status: ProjectStatus, role: ChannelRole) -> list[str]:
    return [c.registered.channel.name for c in status.channels if c.registered.channel.role is role]


def _group_advances(events: Iterable[Event]) -> dict[str, dict[int, Version]]:
    """Return, by channel and sequence number, when the head advanced to it."""
    advances: dict[str, dict[int, Version]] = defaultdict(dict)
    for event in events:
        if event.kind == ADVANCED:
            advances[event.subject][event.detail["seq"]] = event.detail["visible"]
    return advances


def _read_visible_provenance(
    blocks: BlockQueries, channel: str, advances: dict[int, Version], initial: Mapping[Pathway, Version]
) -> list[VisibleProvenance]:
    """Read the provenance of a channel over time.

    `initial` has version 0 of each pathway: of an input whose data arrived after the table was written, the table
    reflects no version, and lacks the first.
    """
    reached = {b.seq: b.channel_provenance for b in blocks.list(channel, BLOCKS)} if advances else {}
    newest = {seq: find_newest_versions(reached[seq]) for seq in advances if seq in reached}
    provenance = [
        VisibleProvenance(advances[seq], {**initial, **versions} if versions else versions)
        for seq, versions in newest.items()
    ]
    return sorted(provenance, key=lambda r: r.visible)
