"""Sums over consecutive windows: events that entered are added, those that left are subtracted."""

from collections.abc import Mapping, Sequence

from tidemill.stream.windows.former import FormedWindow
from tidemill.stream.windows.operator import Group

Values = tuple[int, ...]
"""Integers, so that subtraction is exact."""


class WindowTotals:
    """Running sums of each group's newest window.

    They are not part of the state: without them, the first window is summed in full, and the next ones continue from
    it.
    """

    def __init__(self) -> None:
        self._last: dict[Group, tuple[dict[int, Values], Values]] = {}

    def update_sums(self, group: Group, window: FormedWindow, values: Mapping[int, Values]) -> Values:
        """Return the sums over the next window of its group; `values` has at least those of its events."""
        summed, sums = self._last.get(group, ({}, ()))
        events = frozenset(window.events)
        entered, removed = events.difference(summed), summed.keys() - events
        added = [values[event] for event in entered]
        subtracted = [summed.pop(event) for event in removed]
        summed.update(zip(entered, added, strict=True))
        sums = _add_rows(_add_rows(sums, added, 1), subtracted, -1)
        self._last[group] = (summed, sums)
        return sums


def _add_rows(sums: Values, rows: Sequence[Values], sign: int) -> Values:
    if not rows:
        return sums
    columns = [sign * sum(column) for column in zip(*rows, strict=True)]
    return tuple(s + c for s, c in zip(sums or (0,) * len(columns), columns, strict=True))
