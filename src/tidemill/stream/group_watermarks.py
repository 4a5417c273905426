"""Watermarks of groups: the progress of time in each group, at each event of a batch."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def compute_watermarks_before(groups: Numbers, time: Numbers, watermarks: Numbers) -> Numbers:
    """Return the latest time in its group before each event, in order of arrival, from those before the batch.

    >>> compute_watermarks_before(np.array([0, 1, 0, 0]), np.array([5, 9, 3, 7]), np.array([4, 2])).tolist()
    [4, 2, 5, 5]
    """
    group_marks = watermarks[groups]
    if not len(time):
        return group_marks
    order = np.argsort(groups, kind="stable")
    ranks = np.argsort(np.argsort(time[order], kind="stable"), kind="stable")
    is_first = np.r_[True, np.diff(groups[order]) != 0]
    block = np.cumsum(is_first) * (len(time) + 1)
    highest = np.maximum.accumulate(block + ranks)
    by_rank = np.sort(time)
    latest = by_rank[highest - block]
    before = np.empty_like(time)
    before[order] = np.where(
        is_first, group_marks[order], np.maximum(group_marks[order], np.r_[latest[:1], latest[:-1]])
    )
    return before


def build_place_lookup(groups: Numbers, times: Numbers) -> Callable[[Numbers, Numbers], Numbers]:
    """Return a function that finds the position of a time in a group; both arrays are sorted by group, then time.

    >>> find_places = build_place_lookup(np.array([0, 0, 2]), np.array([10, 20, 10]))
    >>> find_places(np.array([0, 2, 1]), np.array([15, 10, 99])).tolist()
    [1, 2, 2]
    """
    low = int(times.min()) if len(times) else 0
    span = int(times.max()) - low + 2 if len(times) else 2
    combined = groups * span + (times - low)

    def find_place(group: Numbers, time: Numbers) -> Numbers:
        return np.searchsorted(combined, group * span + np.clip(time - low, 0, span - 1))

    return find_place
