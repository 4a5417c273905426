"""What is stored, and the question that every algorithm answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidemill.errors import CannotFree
from tidemill.retention.eviction.history import SubmissionHistory

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Figures = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DatasetStore:
    """What is stored; datasets go by their numbers in the history.

    `movable` are those that may go: neither leaves nor pinned, and nobody reads them or waits for them.
    """

    stored: Flags
    movable: Numbers
    seconds: Figures  # that each took to compute, the missing ones included
    bytes: Figures

    @property
    def movable_bytes(self) -> float:
        """Bytes of all that may go."""
        return float(self.bytes[self.movable].sum())

    def check_amount(self, amount: float) -> None:
        """An algorithm is asked for no more than there is."""
        problem = self.describe_shortage(amount)
        if problem is not None:
            raise CannotFree(problem)

    def describe_shortage(self, amount: float) -> str | None:
        """Why so many bytes cannot be freed; None if they can."""
        if self.movable_bytes >= amount:
            return None
        return (
            f"{amount:.0f} bytes are to be freed, but all that may go holds {self.movable_bytes:.0f}, "
            f"so that {amount - self.movable_bytes:.0f} bytes are missing; "
            "wait for running work to end, delete leaves that nobody needs, unpin something, or raise the budget"
        )


class EvictionAlgorithm(Protocol):
    """Chooses what to delete. What was chosen may depend on earlier choices, but on nothing outside."""

    def __init__(self) -> None: ...

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        """Movable datasets of at least `amount` bytes together; raises `CannotFree` if there are not enough."""
        ...


def take_lowest(scores: Figures, store: DatasetStore, amount: float) -> list[int]:
    """The movable datasets with the lowest scores that cover an amount; `scores` has one for each of them."""
    store.check_amount(amount)
    order = store.movable[np.argsort(scores, kind="stable")]
    enough = int(np.searchsorted(np.cumsum(store.bytes[order]), amount)) + 1 if amount > 0 else 0
    return [int(n) for n in order[:enough]]


def to_figures(values: Any) -> Figures:
    return np.array(values, dtype=np.float64)
