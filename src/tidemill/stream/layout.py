"""The layout of a row of state: its key, its fields, and a check word, in words of 64 bits.

Rows are stored as words, so that few operations fetch, store and check many of them; functions see them as structured
arrays. No byte is undefined: padding is a field, because a copy could otherwise change the check.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Slots = npt.NDArray[np.int64]
Keys = tuple[npt.NDArray[np.int64], ...]
"""One array for each column of the key."""

Rows = npt.NDArray[Any]
"""A structured array with the key's columns and the fields."""

WORD = 8
CHECK = "_check"
FILL = "_fill"


@dataclass(frozen=True)
class RowLayout:
    """A key of integers and fields of fixed width. All fields of a new key are zero.

    >>> layout = RowLayout(("vehicle",), {"balance": "i8", "lane": "i1"})
    >>> layout.word_count, layout.names
    (4, ('vehicle', 'balance', 'lane'))
    """

    key: tuple[str, ...]
    fields: Mapping[str, str]  # name to numpy type

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.key, *self.fields)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The structured type: wide fields first, so that every field is aligned and only the end needs padding."""
        wide_first = sorted(self.fields.items(), key=lambda f: -np.dtype(f[1]).itemsize)
        parts: list[tuple[Any, ...]] = [(k, "i8") for k in self.key] + wide_first
        padding = -sum(np.dtype(p[1]).itemsize for p in parts) % WORD
        fill = [(FILL, "u1", (padding,))] if padding else []
        return np.dtype([*parts, *fill, (CHECK, "u8")])

    @property
    def word_count(self) -> int:
        return self.dtype.itemsize // WORD

    @cached_property
    def digest(self) -> bytes:
        """Identifies the layout of a file."""
        return blake2b(repr((self.key, self.dtype.descr)).encode(), digest_size=16).digest()

    def view_rows(self, words: Words) -> Rows:
        """View words as rows, without copying."""
        rows: Rows = words.view(self.dtype)
        return rows[:, 0]

    def build_blank_rows(self, count: int) -> Rows:
        return self.view_rows(np.zeros((count, self.word_count), np.uint64))
