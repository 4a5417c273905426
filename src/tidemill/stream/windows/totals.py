"""Sums over windows that follow each other: what entered is added, what left is taken out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.stream.windows.former import FormedWindow
from tidemill.stream.windows.operator import Group

Values = tuple[int, ...]
"""Whole numbers, so that taking out is exact."""


class WindowTotals:
    """Running sums of each group's newest window.

    They are no state: whoever begins without them takes the whole of the first window in, and goes on from there.
    """

    def __init__(self) -> None:
        self._last: dict[Group, tuple[dict[int, Values], Values]] = {}

    def update_sums(self, group: Group, window: FormedWindow, values: Mapping[int, Values]) -> Values:
        """The sums over a window that follows the last one of its group; `values` has those of its events at least."""
        held, sums = self._last.get(group, ({}, ()))
        events = frozenset(window.events)
        entered, left = events.difference(held), held.keys() - events
        added = [values[event] for event in entered]
        taken = [held.pop(event) for event in left]
        held.update(zip(entered, added, strict=True))
        sums = _add_rows(_add_rows(sums, added, 1), taken, -1)
        self._last[group] = (held, sums)
        return sums


def _add_rows(sums: Values, rows: Sequence[Values], sign: int) -> Values:
    if not rows:
        return sums
    columns = [sign * sum(column) for column in zip(*rows, strict=True)]
    return tuple(s + c for s, c in zip(sums or (0,) * len(columns), columns, strict=True))
