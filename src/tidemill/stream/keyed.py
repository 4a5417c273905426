"""The operator for keyed state: each batch changes a few rows.

A function gets the state rows of a batch's keys and the batch, and returns the outputs and the new rows: `fn(state,
batch) -> outputs, changed rows`. It is called once for a partition, not once for a key. If a key occurs twice in a
batch, the batch runs in rounds: the first events of all keys, then the second ones.
"""

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
    rows: Rows  # of state, one for each event of the batch
    outputs: Mapping[str, Columns] = field(default_factory=dict)  # by the name of the output
    changed: npt.NDArray[np.bool_] | None = None  # which rows changed; None: all may have


Function = Callable[[Rows, Columns], KeyedResult]
"""Vectorised: the n-th row of state belongs to the n-th event, and all rows have different keys."""


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    outputs: Mapping[str, Columns]
    changed: Rows  # of state, each key once: the delta


def run_batch(table: StateTable, events: Columns, function: Function) -> BatchOutcome:
    """Run a batch against the table, which has the new state afterwards. Outputs are ordered by round, not by event."""
    slots = table.ensure_slots(tuple(events[name].astype(np.int64, copy=False) for name in table.layout.key))
    touched = np.zeros(table.count, bool)
    outputs: list[Mapping[str, Columns]] = []
    for members in split_rounds(slots, table.count):
        result = function(table.read(slots[members]), {name: c[members] for name, c in events.items()})
        changed = slice(None) if result.changed is None else result.changed
        table.write(slots[members][changed], result.rows[changed])
        touched[slots[members][changed]] = True
        outputs.append(result.outputs)
    return BatchOutcome(merge_outputs(outputs), table.read(np.flatnonzero(touched)))


def split_rounds(slots: Slots, count: int) -> Iterator[Slots]:
    """Yield the events of each round, in order: no slot twice in one round, earlier events in earlier rounds.

    >>> [r.tolist() for r in split_rounds(np.array([4, 2, 4, 4, 2]), 5)]
    [[0, 1], [2, 4], [3]]
    """
    first = np.empty(count, np.int64)
    pending = np.arange(len(slots))
    while pending.size:
        first[slots[pending[::-1]]] = pending[::-1]  # of several the last write wins: the earliest event
        is_next = first[slots[pending]] == pending
        yield pending[is_next]
        pending = pending[~is_next]


def merge_outputs(parts: Sequence[Mapping[str, Columns]]) -> dict[str, Columns]:
    """Merge the outputs of several rounds; an output that a round leaves out is empty there."""
    columns_by_output: dict[str, list[Columns]] = {}
    for part in parts:
        for name, columns in part.items():
            columns_by_output.setdefault(name, []).append(columns)
    return {name: _stack_columns(columns) for name, columns in columns_by_output.items()}


def _stack_columns(parts: Sequence[Columns]) -> Columns:
    return parts[0] if len(parts) == 1 else {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
