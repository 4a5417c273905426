"""How often each series of workflows is submitted, and how often those that a dataset was part of were.

Whoever asks for a dataset again is mostly one of those who asked before. So its waiting is counted in submissions of
its *homes*, the series whose graphs it was in, and not of everybody: what is seldom asked for because its series rests
is told from what its series has left behind.
"""

from __future__ import annotations

from array import array

import numpy as np

from tidemill.retention.eviction.recency import RecencyClass
from tidemill.retention.eviction.waits import Figures, WaitStatistics, find_popularity_class

HALF_LIFE = 150
"""Submissions, of all, after which one counts half."""


class SubmissionSeries:
    """Every series has a number, and so have datasets; which was part of which stands in two arrays, side by side."""

    def __init__(self) -> None:
        self.now = 0
        self._numbers: dict[str, int] = {}
        self._submitted = array("d")  # how often
        self._popular = array("d")  # the same, as of the last time, with those before it decayed
        self._at = array("d")  # the last time
        self._mood = array("i")
        self._waits = WaitStatistics()
        self._waits.add_kind()
        self._homes: list[list[int]] = []  # of each dataset
        self._dataset = array("i")
        self._home = array("i")

    def record_submission(self, name: str) -> int:
        self.now += 1
        number = self._numbers.setdefault(name, len(self._numbers))
        if number == len(self._submitted):
            self._add_series()
        else:
            gone = self.now - self._at[number]
            self._waits.record_wait(0, self._mood[number], 0.0, gone, demanded=True)
            self._popular[number] = self._popular[number] * 0.5 ** (gone / HALF_LIFE) + 1
        self._submitted[number] += 1
        self._at[number] = self.now
        self._mood[number] = find_popularity_class(self._popular[number], RecencyClass.LATEST)
        return number

    def _add_series(self) -> None:
        for figures, first in ((self._submitted, 0.0), (self._popular, 1.0), (self._at, 0.0)):
            figures.append(first)
        self._mood.append(0)

    def add_member(self, dataset: int, series: int) -> float:
        """A dataset is in a graph of a series; returns by how much that adds to the submissions of its homes."""
        while dataset >= len(self._homes):
            self._homes.append([])
        if series in self._homes[dataset]:
            return 0.0
        self._homes[dataset].append(series)
        self._dataset.append(dataset)
        self._home.append(series)
        return self._submitted[series]

    def count_submissions(self, dataset: int) -> float:
        """How often the homes of a dataset were submitted."""
        return sum(self._submitted[home] for home in self._homes[dataset])

    def count_all_submissions(self, datasets: int) -> Figures:
        return self._sum_by_dataset(np.array(self._submitted), datasets)

    def estimate_rates(self, datasets: int) -> Figures:
        """Submissions to be expected, at each submission of anybody, of the homes of each dataset."""
        waited = self.now - np.array(self._at)
        kind, before = np.zeros(len(waited), dtype=np.int32), np.zeros(len(waited))
        own = self._waits.estimate_rates(
            kind, np.array(self._mood), before, waited, np.ones(len(waited), dtype=np.bool_)
        )
        return self._sum_by_dataset(own, datasets)

    def _sum_by_dataset(self, figures: Figures, datasets: int) -> Figures:
        summed = np.bincount(np.array(self._dataset), figures[np.array(self._home)], minlength=datasets)
        return summed.astype(np.float64, copy=False)
