"""The operator for state that is looked up by key and changed a little by every batch.

A function gets the rows of state that a batch's keys lead to and the batch, and returns what comes out and the rows as
they are now: `fn(state, batch) -> outputs, changed rows`. It is called once for a partition, not once for a key.
Where a key occurs twice in a batch, the batch runs in rounds: the first events of all keys, then the second ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tidemill.stream.layout import Rows, Slots
from tidemill.stream.table import StateTable

Column = npt.NDArray[Any]
Columns = Mapping[str, Column]
"""Arrays of one length, by name."""


@dataclass(frozen=True, slots=True)
class KeyedResult:
    """What a function made of a batch."""

    rows: Rows  # of state, one for each event of the batch
    outputs: Mapping[str, Columns] = field(default_factory=dict)  # by the name of the output
    changed: npt.NDArray[np.bool_] | None = None  # which rows differ from before; None: all may


Function = Callable[[Rows, Columns], KeyedResult]
"""Vectorised: the n-th row of state belongs to the n-th event, and no two rows to one key."""


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What a batch came to."""

    outputs: Mapping[str, Columns]
    changed: Rows  # of state, each key once: the delta


def run_batch(table: StateTable, events: Columns, function: Function) -> BatchOutcome:
    """Run a batch against the table, which has the new state afterwards. Outputs come in rounds, not by event."""
    slots = table.ensure_slots(tuple(events[name].astype(np.int64, copy=False) for name in table.layout.key))
    touched = np.zeros(table.count, bool)
    outputs: list[Mapping[str, Columns]] = []
    for members in split_rounds(slots, table.count):
        step = function(table.read(slots[members]), {name: c[members] for name, c in events.items()})
        kept = slice(None) if step.changed is None else step.changed
        table.write(slots[members][kept], step.rows[kept])
        touched[slots[members][kept]] = True
        outputs.append(step.outputs)
    return BatchOutcome(merge_outputs(outputs), table.read(np.flatnonzero(touched)))


def split_rounds(slots: Slots, count: int) -> Iterator[Slots]:
    """The events of each round, in their order: no slot twice in one round, earlier events in earlier rounds.

    >>> [r.tolist() for r in split_rounds(np.array([4, 2, 4, 4, 2]), 5)]
    [[0, 1], [2, 4], [3]]
    """
    first = np.empty(count, np.int64)
    waiting = np.arange(len(slots))
    while waiting.size:
        first[slots[waiting[::-1]]] = waiting[::-1]  # of several the last one written stays: the earliest
        now = first[slots[waiting]] == waiting
        yield waiting[now]
        waiting = waiting[~now]


def merge_outputs(parts: Sequence[Mapping[str, Columns]]) -> dict[str, Columns]:
    """Outputs of several rounds as one; an output that a round leaves out is empty there."""
    found: dict[str, list[Columns]] = {}
    for part in parts:
        for name, columns in part.items():
            found.setdefault(name, []).append(columns)
    return {name: _stack_columns(columns) for name, columns in found.items()}


def _stack_columns(parts: Sequence[Columns]) -> Columns:
    return parts[0] if len(parts) == 1 else {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
