"""Views of channels, built from the committed blocks and those of the current run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tidemill.errors import ConfigError
from tidemill.model.block import Block, BlockKind, DataFile
from tidemill.model.change import Custom, Updates
from tidemill.model.evolution import find_type_changes
from tidemill.model.schema import Schema
from tidemill.model.view import (
    ConvertedDelta,
    DeltaChain,
    Snapshot,
    SnapshotDiff,
    build_chain,
    build_snapshot,
    list_blocks,
)
from tidemill.planner.graph import DataSize
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import RegisteredChannel


class ChannelViews:
    """Finds the blocks of a content or a change.

    It queries the catalog once for each item and serves one unit of work: later changes are not seen. `updates` are the
    merge kinds that the workflow declares: user-defined functions are in its files, not in the catalog.
    """

    def __init__(self, catalog: CatalogReader, updates: Mapping[str, Updates]) -> None:
        self._catalog = catalog
        self._updates = updates
        self._channels: dict[str, RegisteredChannel] = {}
        self._committed: dict[str, list[tuple[int, list[Block]]]] = {}  # by channel: end position, and the blocks

    def load(self, channels: Collection[str], contents: Collection[str] = ()) -> None:
        """Load channels, and the blocks of the contents of some of them, by one query for each kind."""
        self._channels |= {r.channel.name: r for r in self._catalog.channels.read_all(channels)}
        for channel, blocks in self._catalog.blocks.read_contents(contents).items():
            self._committed.setdefault(channel, []).append((blocks[-1].seq, blocks))

    def get_channel(self, name: str) -> RegisteredChannel:
        if name not in self._channels:
            self._channels[name] = self._catalog.channels.read(name)
        return self._channels[name]

    def build_snapshot(self, channel: str, at: int, pending: Sequence[Block] = ()) -> Snapshot:
        """Build the content at position `at`; `pending` are uncommitted blocks of the current run."""
        return self._read_snapshot(channel, self.get_schema(channel, pending), at, pending)

    def build_change(
        self, channel: str, since: int, upto: int, pending: Sequence[Block] = ()
    ) -> DeltaChain | SnapshotDiff | ConvertedDelta:
        """Build the change after `since`, up to `upto`: a chain of deltas if there is one, else a difference."""
        schema = self.get_schema(channel, pending)
        updates = self.get_updates(channel)
        cached = self._find_cached_blocks(channel, since, upto)
        committed = cached or self._catalog.blocks.list_deltas(channel, since, upto)
        blocks = self._apply_declared_updates(channel, [*committed, *pending])
        deltas = build_chain(channel, schema, updates, blocks, since, upto)
        if deltas is not None and (deltas.updates.name == updates.name or not deltas.deltas):
            return deltas
        before = self._read_snapshot(channel, schema, since, ())
        if deltas is not None:
            return ConvertedDelta(deltas, before)
        return SnapshotDiff(before, self._read_snapshot(channel, schema, upto, pending), updates)

    def get_schema(self, channel: str, pending: Sequence[Block] = ()) -> Schema:
        schema = pending[-1].schema if pending else self.get_channel(channel).channel.schema
        if schema is None:
            raise ConfigError(
                f"channel {channel} has no schema yet: no data was written to it; run the task that writes it first, "
                f"or declare the schema with table({channel!r}, '…')"
            )
        return schema

    def get_updates(self, channel: str) -> Updates:
        return self._updates.get(channel) or self.get_channel(channel).channel.updates

    def _read_snapshot(self, channel: str, schema: Schema, position: int, pending: Sequence[Block]) -> Snapshot:
        committed = self._find_cached_blocks(channel, position, position)
        if committed is None:
            committed = self._catalog.blocks.read_base_and_deltas(channel, position)
            self._committed.setdefault(channel, []).append((position, committed))
        blocks = self._apply_declared_updates(channel, [*committed, *pending])
        content = build_snapshot(channel, schema, blocks, position)
        written = next((b.schema for b in reversed(list_blocks(content)) if b.files), schema)
        return replace(content, schema=written) if find_type_changes(written, schema) else content

    def _find_cached_blocks(self, channel: str, since: int, upto: int) -> list[Block] | None:
        """Return cached blocks if they cover `since` to `upto`, that is, their base is not newer than `since`."""
        for reached, blocks in self._committed.get(channel, ()):
            if upto <= reached and any(b.kind is BlockKind.BASE and b.seq <= since for b in blocks):
                return blocks
        return None

    def _apply_declared_updates(self, channel: str, blocks: Sequence[Block]) -> list[Block]:
        declared = self._updates.get(channel)
        if not isinstance(declared, Custom):
            return list(blocks)
        return [replace(b, updates=declared) if isinstance(b.updates, Custom) else b for b in blocks]


def list_deltas(view: DeltaChain | ConvertedDelta) -> Sequence[Block]:
    return (view.chain if isinstance(view, ConvertedDelta) else view).deltas


def compute_size(parts: Collection[Block | DataFile]) -> DataSize:
    return DataSize(sum(p.rows for p in parts), sum(p.bytes for p in parts))
