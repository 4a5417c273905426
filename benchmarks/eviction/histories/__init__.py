"""Synthetic histories, one kind of use a file. They were written before any algorithm was tried on them."""

from collections.abc import Callable
from random import Random

from benchmarks.eviction.histories.adhoc import generate_adhoc
from benchmarks.eviction.histories.chains import generate_chains
from benchmarks.eviction.histories.drift import generate_drift
from benchmarks.eviction.histories.edits import generate_edits
from benchmarks.eviction.histories.mixed import generate_mixed
from benchmarks.eviction.histories.recurring import generate_recurring
from benchmarks.eviction.histories.sweeps import generate_sweeps
from benchmarks.eviction.submission import Submission

HISTORIES: dict[str, Callable[[Random, int], list[Submission]]] = {
    "sweeps": generate_sweeps,
    "edits": generate_edits,
    "recurring": generate_recurring,
    "mixed users": generate_mixed,
    "chains": generate_chains,
    "drift": generate_drift,
    "ad hoc": generate_adhoc,
}

__all__ = ["HISTORIES"]
