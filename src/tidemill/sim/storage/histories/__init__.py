"""Synthetic histories, one kind of use a file. They were written before any algorithm was tried on them."""

from collections.abc import Callable
from random import Random

from tidemill.sim.storage.histories.adhoc import adhoc
from tidemill.sim.storage.histories.chains import chains
from tidemill.sim.storage.histories.drift import drift
from tidemill.sim.storage.histories.edits import edits
from tidemill.sim.storage.histories.mixed import mixed
from tidemill.sim.storage.histories.recurring import recurring
from tidemill.sim.storage.histories.sweeps import sweeps
from tidemill.sim.storage.submission import Submission

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
