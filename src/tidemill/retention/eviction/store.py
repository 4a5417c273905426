"""What is stored, and the question that every algorithm answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidemill.errors import CannotFree
from tidemill.retention.eviction.history import History

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Figures = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Store:
    """What is stored; datasets go by their numbers in the history.

    `movable` are those that may go: neither leaves nor pinned, and nobody reads them or waits for them.
    """

    stored: Flags
    movable: Numbers
    seconds: Figures  # that each took to compute, the missing ones included
    bytes: Figures

    @property
    def most(self) -> float:
        """Bytes of all that may go."""
        return float(self.bytes[self.movable].sum())

    def check(self, amount: float) -> None:
        """An algorithm is asked for no more than there is."""
        problem = self.shortage(amount)
        if problem is not None:
            raise CannotFree(problem)

    def shortage(self, amount: float) -> str | None:
        """Why so many bytes cannot be freed; None if they can."""
        if self.most >= amount:
            return None
        return (
            f"{amount:.0f} bytes are to be freed, but all that may go holds {self.most:.0f}, "
            f"so that {amount - self.most:.0f} bytes are missing; "
            "wait for running work to end, delete leaves that nobody needs, unpin something, or raise the budget"
        )


class Algorithm(Protocol):
    """Chooses what to delete. What was chosen may depend on earlier choices, but on nothing outside."""

    def __init__(self) -> None: ...

    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        """Movable datasets of at least `amount` bytes together; raises `CannotFree` if there are not enough."""
        ...


def in_order(scores: Figures, store: Store, amount: float) -> list[int]:
    """The movable datasets with the lowest scores that cover an amount; `scores` has one for each of them."""
    store.check(amount)
    order = store.movable[np.argsort(scores, kind="stable")]
    enough = int(np.searchsorted(np.cumsum(store.bytes[order]), amount)) + 1 if amount > 0 else 0
    return [int(n) for n in order[:enough]]


def figures(values: Any) -> Figures:
    return np.array(values, dtype=np.float64)
