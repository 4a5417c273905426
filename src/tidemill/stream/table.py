"""A table of state: rows of fixed width, each in a slot that its key maps to.

The index is a hash table with open addressing in one array; thousands of keys are looked up in as many passes as the
longest probe takes. A row never moves and is never removed, so a slot identifies a key for the lifetime of the table.

Several processes write the file of a table. So rows and cells have checks, which are compared when they are read: their
cost is proportional to the reads, not to the size of the state. The position is part of a check; zeros never pass.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidemill.errors import StorageError
from tidemill.stream.layout import Keys, RowLayout, Rows, Slots, Words

_ODD = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xC2B2AE3D27D4EB4F)
_THIRD = np.uint64(0x165667B19E3779F9)
_HALF = np.uint64(32)
_PIECE_CELLS = 2**15


class StateDamaged(StorageError):
    """Cached state is damaged; it is rebuilt from the base and its deltas."""


def compute_row_checks(words: Words, slots: Slots) -> Words:
    """Sum all words but the last, each times a different odd number: every change of a single word is detected."""
    factors = _ODD * (np.arange(1, words.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1))
    checks: Words = words[:, :-1] @ factors + _OTHER * (slots.astype(np.uint64) + np.uint64(1))
    return checks


def encode_cells(positions: npt.NDArray[np.int64], entries: npt.NDArray[np.int64]) -> Words:
    """Encode cells of the index: an entry, 0 if there is none, and the check of entry and position below it."""
    entry = entries.astype(np.uint64)
    check = (positions.astype(np.uint64) * _ODD ^ entry * _OTHER) + _THIRD
    check = (check ^ (check >> _HALF)) * _OTHER
    return (entry << _HALF) | (check >> _HALF)


def build_empty_cells(count: int) -> Words:
    """Build cells without entries, in pieces that fit the processor's cache."""
    cells = np.empty(count, np.uint64)
    for first in range(0, count, _PIECE_CELLS):
        positions = np.arange(first, min(first + _PIECE_CELLS, count))
        cells[first : first + _PIECE_CELLS] = encode_cells(positions, np.zeros_like(positions))
    return cells


def decode_entries(cells: Words, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    entries = (cells >> _HALF).astype(np.int64)
    if not (encode_cells(positions, entries) == cells).all():
        raise StateDamaged("the index of cached state is damaged")
    return entries


def hash_keys(keys: Keys) -> Words:
    """Hash keys so that similar keys get distant values.

    >>> len(set((hash_keys((np.arange(1000),)) % np.uint64(4096)).tolist())) > 800
    True
    """
    mixed = np.zeros(len(keys[0]), np.uint64)
    for column in keys:
        mixed = (mixed ^ column.astype(np.uint64)) * _ODD
        mixed ^= mixed >> _HALF
        mixed *= _OTHER
        mixed ^= mixed >> np.uint64(29)
    return mixed


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
        capacity = 1 << (max(capacity, MIN_CAPACITY) - 1).bit_length()  # a power of two
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
