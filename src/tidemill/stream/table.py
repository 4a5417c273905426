"""A table of state: rows of fixed width, each in a slot that its key maps to.

The index is a hash table with open addressing in one array; thousands of keys are looked up in as many passes as the
longest probe takes. A row never moves and is never removed, so a slot identifies a key for the lifetime of the table.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidemill.stream.checksums import (
    StateDamaged,
    build_empty_cells,
    compute_row_checks,
    decode_entries,
    encode_cells,
    hash_keys,
)
from tidemill.stream.layout import Keys, RowLayout, Rows, Slots, Words

MIN_CAPACITY = 1024  # rows
CELLS_PER_ROW = 4  # minimum number of index cells per row: the longest probe decides how many passes a lookup takes


class StateTable:
    """Rows by key, in arrays in memory or in a mapped file.

    `words` has capacity for more rows than there are; the number of index cells is a power of two.
    """

    def __init__(self, layout: RowLayout, words: Words, cells: Words, count: int) -> None:
        self.layout = layout
        self.words = words
        self.cells = cells
        self.count = count

    @classmethod
    def create_table(cls, layout: RowLayout, capacity: int = MIN_CAPACITY) -> StateTable:
        capacity = _round_up_power(max(capacity, MIN_CAPACITY))
        return cls(
            layout, np.zeros((capacity, layout.word_count), np.uint64), build_empty_cells(capacity * CELLS_PER_ROW), 0
        )

    def find_slots(self, keys: Keys) -> Slots:
        """Return the slot of each key, -1 if there is none; a probe that meets another key moves to the next cell."""
        slots = np.full(len(keys[0]), -1, np.int64)
        pending, positions, last = np.arange(len(slots)), self._hash_places(keys), len(self.cells) - 1
        while pending.size:
            entries = decode_entries(self.cells[positions], positions) - 1
            is_used = entries >= 0
            pending, positions, entries = pending[is_used], positions[is_used], entries[is_used]
            same = self._match_keys(entries, tuple(k[pending] for k in keys))
            slots[pending[same]] = entries[same]
            self.read(entries[~same])  # a damaged key must not pass for another one
            pending, positions = pending[~same], (positions[~same] + 1) & last
        return slots

    def ensure_slots(self, keys: Keys) -> Slots:
        """Return the slot of each key; new keys get one."""
        slots = self.find_slots(keys)
        missing = np.flatnonzero(slots < 0)
        if missing.size:
            self._add_rows(_drop_duplicates(tuple(k[missing] for k in keys)))
            slots[missing] = self.find_slots(tuple(k[missing] for k in keys))
        return slots

    def read(self, slots: Slots) -> Rows:
        """Return copies of rows."""
        words = self.words[slots]
        if not (compute_row_checks(words, slots) == words[:, -1]).all():
            raise StateDamaged("rows of cached state are damaged")
        return self.layout.view_rows(words)

    def write(self, slots: Slots, rows: Rows) -> None:
        """Write rows, whose keys are those of the slots; no slot may occur twice."""
        words = np.ascontiguousarray(rows).view(np.uint64).reshape(len(rows), self.layout.word_count)
        words[:, -1] = compute_row_checks(words, slots)
        self.words[slots] = words

    def read_all(self) -> Rows:
        return self.read(np.arange(self.count))

    def _match_keys(self, slots: Slots, keys: Keys) -> npt.NDArray[np.bool_]:
        if slots.size and slots.max() >= self.count:
            raise StateDamaged("the index of cached state refers to rows that do not exist")
        columns = [self.words[slots, n].view(np.int64) == key for n, key in enumerate(keys)]
        same: npt.NDArray[np.bool_] = np.logical_and.reduce(columns)
        return same

    def _hash_places(self, keys: Keys) -> Slots:
        """Return the position at which the probe for each key begins."""
        return (hash_keys(keys) & np.uint64(len(self.cells) - 1)).view(np.int64)

    def _add_rows(self, keys: Keys) -> None:
        """Add rows for distinct new keys."""
        new = len(keys[0])
        self._make_room(new)
        slots = np.arange(self.count, self.count + new)
        rows = self.layout.build_blank_rows(new)
        for name, key in zip(self.layout.key, keys, strict=True):
            rows[name] = key
        self.write(slots, rows)
        self.count += new
        self._index_slots(slots, keys)

    def _index_slots(self, slots: Slots, keys: Keys) -> None:
        """Index slots. If several need the same cell, one gets it and the others probe on."""
        positions, last = self._hash_places(keys), len(self.cells) - 1
        while slots.size:
            free = decode_entries(self.cells[positions], positions) == 0
            self.cells[positions[free]] = encode_cells(positions[free], slots[free] + 1)
            is_pending = decode_entries(self.cells[positions], positions) != slots + 1
            slots, positions = slots[is_pending], (positions[is_pending] + 1) & last

    def _make_room(self, new: int) -> None:
        """Grow into new arrays in memory, at most twice as large as needed; a mapped file is left as it is."""
        if self.count + new <= len(self.words):
            return
        larger = StateTable.create_table(self.layout, self.count + new)
        larger.words[: self.count] = self.words[: self.count]
        keys = tuple(self.read_all()[k] for k in self.layout.key)
        self.words, self.cells = larger.words, larger.cells
        self._index_slots(np.arange(self.count), keys)


def _drop_duplicates(keys: Keys) -> Keys:
    if len(keys) == 1:
        return (np.unique(keys[0]),)
    order = np.lexsort(keys[::-1])
    ordered = [k[order] for k in keys]
    first = np.ones(len(order), bool)
    first[1:] = np.logical_or.reduce([k[1:] != k[:-1] for k in ordered])
    retained = np.sort(order[first])
    return tuple(k[retained] for k in keys)


def _round_up_power(number: int) -> int:
    return 1 << (number - 1).bit_length()
