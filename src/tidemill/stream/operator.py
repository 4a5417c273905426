"""The interface of stateful operators: restored from blocks, run on batches, returning rows and deltas.

An operator may cache data between batches; the engine reuses it only for the state that it left, and creates and
restores another one if that is not the committed state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class InputBlock:
    """A new block of a channel."""

    rows: pa.Table
    arrived: int  # microseconds; never decreases
    number: int  # of the block on its channel: later ones have larger numbers


@dataclass(frozen=True, slots=True)
class OperatorBatch:
    """The input of a run. Equal full tables of two batches are the same object."""

    new: Mapping[str, Sequence[InputBlock]]  # by argument, in order
    whole: Mapping[str, pa.Table]  # by argument
    now: int  # microseconds: data outside the batch arrives later

    def concat_rows(self, argument: str) -> pa.Table:
        """Return the new rows of all blocks; there is at least one block, which may be empty."""
        return pa.concat_tables([block.rows for block in self.new[argument]])


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """The result of a batch: rows for each output, and the changed rows of each state, each key once.

    A row of a delta in which `_deleted` is true removes its key. Omitted outputs and deltas are empty.
    """

    outputs: Mapping[str, pa.Table]
    deltas: Mapping[str, pa.Table]


class StatefulOperator(Protocol):
    """A stateful operator. It must depend on nothing but its state and its batches."""

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        """Restore a state: for each kind a base, if there is one, and the deltas after it."""

    def run(self, batch: OperatorBatch) -> OperatorResult: ...
