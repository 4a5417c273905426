"""Synthetic histories, one kind of use a file. They were written before any algorithm was tried on them."""

from collections.abc import Callable
from random import Random

from benchmarks.eviction.histories.adhoc import adhoc
from benchmarks.eviction.histories.chains import chains
from benchmarks.eviction.histories.drift import drift
from benchmarks.eviction.histories.edits import edits
from benchmarks.eviction.histories.mixed import mixed
from benchmarks.eviction.histories.recurring import recurring
from benchmarks.eviction.histories.sweeps import sweeps
from benchmarks.eviction.submission import Submission

HISTORIES: dict[str, Callable[[Random, int], list[Submission]]] = {
    "sweeps": sweeps,
    "edits": edits,
    "recurring": recurring,
    "mixed users": mixed,
    "chains": chains,
    "drift": drift,
    "ad hoc": adhoc,
}

__all__ = ["HISTORIES"]
