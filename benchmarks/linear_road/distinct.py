"""Detection of keys that occur for the first time since the beginning or since the last clear."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemill.stream.layout import Keys, RowLayout, Rows
from tidemill.stream.table import StateTable


class DistinctKeys:
    """A set of keys; its new rows are the delta of its state."""

    def __init__(self, key: Sequence[str]) -> None:
        self._table = StateTable.create_table(RowLayout(tuple(key), {}))

    def add_keys(self, keys: Keys) -> Rows:
        """Add keys; returns the new ones, each once."""
        before = self._table.count
        self._table.ensure_slots(keys)
        return self._table.read(np.arange(before, self._table.count))

    def clear_keys(self) -> None:
        """Remove all keys, with capacity for as many again."""
        self._table = StateTable.create_table(self._table.layout, self._table.count)
