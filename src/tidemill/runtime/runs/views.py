"""Views of channels, made from the blocks that the catalog knows and those of the run at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidemill.errors import ConfigError
from tidemill.model.block import Block, Kind
from tidemill.model.change import Custom, Updates
from tidemill.model.schema import Schema
from tidemill.model.view import Chain, Converted, Difference, Snapshot, chain, snapshot
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import RegisteredChannel


class Views:
    """Finds the blocks that make up a content or a change.

    It asks the catalog for each thing once and serves for one piece of work: what happens meanwhile it does not see.
    `updates` gives the merge kinds as the workflow declares them: the user's own functions are in its
    files, not in the catalog.
    """

    def __init__(self, catalog: CatalogReader, updates: Mapping[str, Updates]) -> None:
        self._catalog = catalog
        self._updates = updates
        self._channels: dict[str, RegisteredChannel] = {}
        self._committed: dict[str, list[tuple[int, list[Block]]]] = {}  # by channel: up to where, and the blocks

    def channel(self, name: str) -> RegisteredChannel:
        if name not in self._channels:
            self._channels[name] = self._catalog.channel(name)
        return self._channels[name]

    def snapshot(self, channel: str, at: int, pending: Sequence[Block] = ()) -> Snapshot:
        """The content at `at`; `pending` are blocks of the run at hand, not yet committed."""
        return self._snapshot(channel, self.schema(channel, pending), at, pending)

    def change(
        self, channel: str, since: int, upto: int, pending: Sequence[Block] = ()
    ) -> Chain | Difference | Converted:
        """What changed after `since`, up to `upto`: a chain of deltas if there is one, else a difference."""
        schema = self.schema(channel, pending)
        updates = self.updates(channel)
        found = self._known(channel, since, upto) or self._catalog.deltas(channel, since, upto)
        blocks = self._loaded(channel, [*found, *pending])
        deltas = chain(channel, schema, updates, blocks, since, upto)
        if deltas is not None and (deltas.updates.name == updates.name or not deltas.deltas):
            return deltas
        before = self._snapshot(channel, schema, since, ())
        if deltas is not None:
            return Converted(deltas, before)
        return Difference(before, self._snapshot(channel, schema, upto, pending), updates)

    def schema(self, channel: str, pending: Sequence[Block] = ()) -> Schema:
        schema = pending[-1].schema if pending else self.channel(channel).channel.schema
        if schema is None:
            raise ConfigError(
                f"channel {channel} has no schema yet: nothing was written to it; run the task that writes it first, "
                f"or declare the schema with table({channel!r}, '…')"
            )
        return schema

    def updates(self, channel: str) -> Updates:
        return self._updates.get(channel) or self.channel(channel).channel.updates

    def _snapshot(self, channel: str, schema: Schema, at: int, pending: Sequence[Block]) -> Snapshot:
        found = self._known(channel, at, at)
        if found is None:
            found = self._catalog.base_and_after(channel, at)
            self._committed.setdefault(channel, []).append((at, found))
        return snapshot(channel, schema, self._loaded(channel, [*found, *pending]), at)

    def _known(self, channel: str, since: int, upto: int) -> list[Block] | None:
        """What was asked for before, if all that is readable from `since` to `upto` is there: its base is older."""
        for reached, blocks in self._committed.get(channel, ()):
            if upto <= reached and any(b.kind is Kind.BASE and b.seq <= since for b in blocks):
                return blocks
        return None

    def _loaded(self, channel: str, blocks: Sequence[Block]) -> list[Block]:
        declared = self._updates.get(channel)
        if not isinstance(declared, Custom):
            return list(blocks)
        return [replace(b, updates=declared) if isinstance(b.updates, Custom) else b for b in blocks]
