"""Check words: detect damaged state in a file that several processes write.

Each row and each cell of the index is checked when it is read, so that the cost is proportional to the reads, not to
the size of the state. The position of a row or cell is part of its check; zeros never pass.
"""

import numpy as np
import numpy.typing as npt

from tidemill.errors import StorageError
from tidemill.stream.layout import Keys, Slots, Words

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
