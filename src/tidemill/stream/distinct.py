"""Which keys occur for the first time, since the beginning or since all were forgotten."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemill.stream.layout import Keys, Layout, Rows
from tidemill.stream.table import StateTable


class Distinct:
    """A set of keys; the rows that are new in it are the delta of its state."""

    def __init__(self, key: Sequence[str]) -> None:
        self._table = StateTable.new(Layout(tuple(key), {}))

    def new(self, keys: Keys) -> Rows:
        """The keys that were not there before, each once."""
        before = self._table.count
        self._table.slots(keys)
        return self._table.read(np.arange(before, self._table.count))

    def forget(self) -> None:
        """Begin anew, with room for as many."""
        self._table = StateTable.new(self._table.layout, self._table.count)
