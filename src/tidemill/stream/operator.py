"""The form of all steps with state: restored from blocks, given batches, giving rows and deltas.

An operator may keep what it likes between batches; the engine uses it again only for the state that it left, and makes
and restores another one whenever that is not the state that was committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class InputBlock:
    """A block of what is new on a channel."""

    rows: pa.Table
    arrived: int  # microseconds; never goes back
    number: int  # of the block on its channel: later ones have larger numbers


@dataclass(frozen=True, slots=True)
class OperatorBatch:
    """What a run is given. Equal whole tables of two batches are the same object."""

    new: Mapping[str, Sequence[InputBlock]]  # by argument, in order
    whole: Mapping[str, pa.Table]  # by argument
    now: int  # microseconds: whatever is not in the batch arrives later

    def concat_rows(self, argument: str) -> pa.Table:
        """What is new, of all blocks together; there is at least one, which may be empty."""
        return pa.concat_tables([piece.rows for piece in self.new[argument]])


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """What came of a batch: rows for each output, and the rows of each kind of state that changed, each key once.

    A row of a delta in which `_deleted` is true takes its key away. What is left out is empty.
    """

    outputs: Mapping[str, pa.Table]
    deltas: Mapping[str, pa.Table]


class StatefulOperator(Protocol):
    """A step with state. It must depend on nothing but its state and its batches."""

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        """Go on from a state: for each kind a base, if there is one, and the deltas after it."""

    def run(self, batch: OperatorBatch) -> OperatorResult: ...
