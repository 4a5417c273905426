"""Submission rates of each series of workflows, and of the series of each dataset.

Most demands for a dataset come from the series that demanded it before. So its waiting time is counted in submissions
of its *homes*, the series whose graphs contained it, and not of all series: this distinguishes a dataset whose series
is idle from one that its series has abandoned.
"""

from array import array

import numpy as np

from tidemill.retention.eviction.recency import RecencyClass
from tidemill.retention.eviction.waits import Figures, WaitStatistics, find_popularity_class

HALF_LIFE = 150
"""Submissions, of all series, after which one counts half."""


class SubmissionSeries:
    """All series. Each has a number, and so do datasets; two parallel arrays hold their memberships."""

    def __init__(self) -> None:
        self.now = 0
        self._numbers: dict[str, int] = {}
        self._submitted = array("d")  # number of submissions
        self._popularity = array("d")  # the same as of the last one, with decay
        self._submitted_at = array("d")  # the last one
        self._popularity_class = array("i")
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
            elapsed = self.now - self._submitted_at[number]
            self._waits.record_wait(0, self._popularity_class[number], 0.0, elapsed, demanded=True)
            self._popularity[number] = self._popularity[number] * 0.5 ** (elapsed / HALF_LIFE) + 1
        self._submitted[number] += 1
        self._submitted_at[number] = self.now
        self._popularity_class[number] = find_popularity_class(self._popularity[number], RecencyClass.LATEST)
        return number

    def _add_series(self) -> None:
        for figures, first in ((self._submitted, 0.0), (self._popularity, 1.0), (self._submitted_at, 0.0)):
            figures.append(first)
        self._popularity_class.append(0)

    def add_member(self, dataset: int, series: int) -> float:
        """Record that a series' graph contains a dataset; return the submissions that its new home adds."""
        while dataset >= len(self._homes):
            self._homes.append([])
        if series in self._homes[dataset]:
            return 0.0
        self._homes[dataset].append(series)
        self._dataset.append(dataset)
        self._home.append(series)
        return self._submitted[series]

    def count_submissions(self, dataset: int) -> float:
        """Return the number of submissions of a dataset's homes."""
        return sum(self._submitted[home] for home in self._homes[dataset])

    def count_all_submissions(self, datasets: int) -> Figures:
        return self._sum_by_dataset(np.array(self._submitted), datasets)

    def estimate_rates(self, datasets: int) -> Figures:
        """Estimate the submissions of each dataset's homes per submission of any series."""
        waited = self.now - np.array(self._submitted_at)
        kind, before = np.zeros(len(waited), dtype=np.int32), np.zeros(len(waited))
        rates = self._waits.estimate_rates(
            kind, np.array(self._popularity_class), before, waited, np.ones(len(waited), dtype=np.bool_)
        )
        return self._sum_by_dataset(rates, datasets)

    def _sum_by_dataset(self, figures: Figures, datasets: int) -> Figures:
        summed = np.bincount(np.array(self._dataset), figures[np.array(self._home)], minlength=datasets)
        return summed.astype(np.float64, copy=False)
