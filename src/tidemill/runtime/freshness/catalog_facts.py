"""Facts for planning, read from the catalog: sizes of contents and changes, cursors, cost models, states of tables."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tidemill.algebra.operators import list_scans
from tidemill.algebra.program import DeclaredQuery
from tidemill.model.block import ChannelPosition
from tidemill.model.change import Updates
from tidemill.model.flow import BoundFlow
from tidemill.model.run import VOID_IDENTITY
from tidemill.model.task import Refresh, Task
from tidemill.model.view import SnapshotDiff, list_blocks
from tidemill.planner.cost import CostModel
from tidemill.planner.graph import EMPTY, BlockNode, DataSize
from tidemill.planner.refresh_mode import ChannelReading, StateStatus, TableState
from tidemill.ports.catalog import CatalogReader
from tidemill.runtime.runs.views import ChannelViews, compute_size, list_deltas

PlannedBlocks = Mapping[str, BlockNode]
"""The block that the current run will write to a channel, by channel."""


@dataclass
class CatalogFacts:
    """Facts at one time: the catalog is queried once for each of them, and later changes are not seen."""

    catalog: CatalogReader
    updates: Mapping[str, Updates]
    bindings: Collection[BoundFlow]  # the flows that are planned
    _changes: dict[tuple[str, int], tuple[DataSize, bool]] = field(default_factory=dict)

    @cached_property
    def views(self) -> ChannelViews:
        views = ChannelViews(self.catalog, self.updates)
        channels = {c for b in self.bindings for c in b.read_channels | b.written_channels}
        views.load(channels, channels)
        return views

    @cached_property
    def cursors(self) -> dict[tuple[str, str, str], ChannelPosition]:
        """Positions by flow, task and channel."""
        cursors = self.catalog.channels.read_flow_cursors(self._flows)
        return {(c.binding, c.task, c.channel): c.position for c in cursors}

    def read_cost_models(self, flow: str, task: str) -> dict[str, CostModel]:
        """Read the cost models of a task's variants that ever ran."""
        return self._costs.get((flow, task), {})

    @cached_property
    def _costs(self) -> dict[tuple[str, str], dict[str, CostModel]]:
        models: dict[tuple[str, str], dict[str, CostModel]] = defaultdict(dict)
        for (flow, task, variant), data in self.catalog.flows.read_costs(self._flows).items():
            models[flow, task][variant] = CostModel.from_json(data)
        return models

    @cached_property
    def _flows(self) -> list[str]:
        return [b.name for b in self.bindings]

    def compute_content_size(self, channel: str) -> DataSize:
        registered = self.views.get_channel(channel)
        if registered.channel.schema is None:
            return EMPTY
        return compute_size(list_blocks(self.views.build_snapshot(channel, registered.head.seq)))

    def compute_change_size(self, channel: str, since: int) -> DataSize:
        return self._compute_change(channel, since)[0]

    def read_table_state(self, flow: str, task: Task, planned: PlannedBlocks | None = None) -> TableState:
        """Read the state of a declared table; `planned` are blocks that the same run writes before."""
        code = task.variant.code
        if not isinstance(code, Refresh):
            return TableState(())
        readings = tuple(self._build_readings(flow, task.name, code.query, planned or {}))
        return TableState(readings, self._find_state([s.channel for s in code.query.build_states().values()]))

    def _build_readings(
        self, flow: str, task: str, query: DeclaredQuery, planned: PlannedBlocks
    ) -> Iterator[ChannelReading]:
        growing = {s.channel for s in list_scans(query.root) if s.append_only}
        for channel in query.channels:
            registered, cursor = self.views.get_channel(channel), self.cursors.get((flow, task, channel))
            if registered.channel.schema is None or cursor is None:
                sizes = (registered.rows, registered.rows, registered.bytes, registered.bytes)
                yield ChannelReading(channel, *sizes, consumed=False)
                continue
            content = self.compute_content_size(channel)
            change, replaced = self._compute_change(channel, cursor.seq)
            if (block := planned.get(channel)) is not None:
                replaced = replaced or block.source is None
                content = block.size if block.source is None else content + block.size
                change = content if replaced else change + block.size
            rows, size = (int(content.rows), int(change.rows)), (int(content.bytes), int(change.bytes))
            yield ChannelReading(channel, *rows, *size, replaced=replaced, append_only=channel in growing)

    def _compute_change(self, channel: str, since: int) -> tuple[DataSize, bool]:
        """Compute the size of the change since a position, and whether it replaced the content, without deltas."""
        if (channel, since) not in self._changes:
            self._changes[channel, since] = self._measure_change(channel, since)
        return self._changes[channel, since]

    def _measure_change(self, channel: str, since: int) -> tuple[DataSize, bool]:
        registered = self.views.get_channel(channel)
        if since == registered.head.seq or registered.channel.schema is None:
            return EMPTY, False
        view = self.views.build_change(channel, since, registered.head.seq)
        if isinstance(view, SnapshotDiff):
            return self.compute_content_size(channel), True
        return compute_size(list_deltas(view)), False

    def _find_state(self, channels: list[str]) -> StateStatus:
        if not channels:
            return StateStatus.NONE
        registered = [(name, self.views.get_channel(name)) for name in channels]
        if any(record.channel.schema is None and record.head.seq for _, record in registered):
            return StateStatus.DROPPED  # by the first refresh: its columns were never known
        written = ((name, record.head.seq) for name, record in registered if record.channel.schema is not None)
        bases = [self.views.build_snapshot(*position).base for position in written]
        is_dropped = any(base is not None and base.identity == VOID_IDENTITY for base in bases)
        return StateStatus.DROPPED if is_dropped else StateStatus.KEPT
