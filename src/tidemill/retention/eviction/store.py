"""The stored datasets, as arrays by their numbers in the history."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidemill.errors import EvictionFailed

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Figures = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DatasetStore:
    """The stored datasets, by their numbers in the history."""

    stored: Flags
    evictable: Numbers  # those that may be evicted: neither leaves nor pinned, nor read or awaited
    seconds: Figures  # to compute each, including missing ones
    bytes: Figures

    @property
    def evictable_bytes(self) -> float:
        """Bytes of all evictable datasets."""
        return float(self.bytes[self.evictable].sum())

    def check_amount(self, amount: float) -> None:
        """Raise `EvictionFailed` if the evictable datasets have fewer bytes."""
        problem = self.describe_shortage(amount)
        if problem is not None:
            raise EvictionFailed(problem)

    def describe_shortage(self, amount: float) -> str | None:
        """Describe why this many bytes cannot be freed; None if they can."""
        if self.evictable_bytes >= amount:
            return None
        return (
            f"{amount:.0f} bytes must be freed, but all evictable datasets have {self.evictable_bytes:.0f}, "
            f"so {amount - self.evictable_bytes:.0f} bytes are missing; "
            "wait for running work to end, delete unneeded leaves, unpin a dataset, or raise the budget"
        )


def to_figures(values: Any) -> Figures:
    return np.array(values, dtype=np.float64)
