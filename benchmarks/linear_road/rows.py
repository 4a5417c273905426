"""Input and output rows, in the columns and the CSV of the specification."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as csv

from tidemill.errors import BadInput

Column = npt.NDArray[np.int64]
Columns = Mapping[str, Column]

INPUT = ("type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid", "sinit", "send", "dow", "tod", "day")
HISTORY = ("vid", "day", "xway", "toll")

REPORT, BALANCE, EXPENDITURE = 0, 2, 3
"""Types of input rows. Type 4, the travel time, is omitted, as in other implementations."""

SEGMENTS = 100
FEET = 5280
"""Feet of a segment."""

EXIT = 4
ENTRY = 0
"""Lane numbers."""

ANSWERS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "tolls": (0, ("vid", "time", "emit", "lav", "toll")),
    "accidents": (1, ("time", "emit", "xway", "seg", "dir", "vid")),
    "balances": (2, ("time", "emit", "result_time", "qid", "balance")),
    "expenditures": (3, ("time", "emit", "qid", "balance")),
}
"""Type and columns of each kind of answer."""

LIMITS = {"tolls": 5, "accidents": 5, "balances": 5, "expenditures": 10}
"""Maximum seconds between an event and its answer."""


def to_minute(time: Column) -> Column:
    return time // 60 + 1


def read_input(path: Path) -> Columns:
    return _read_csv(path, INPUT)


def read_history(path: Path) -> Columns:
    return _read_csv(path, HISTORY)


def write_input(path: Path, rows: Columns) -> None:
    write_csv(path, [rows[name] for name in INPUT])


def write_history(path: Path, rows: Columns) -> None:
    write_csv(path, [rows[name] for name in HISTORY])


def write_csv(path: Path, columns: Iterable[Column]) -> None:
    table = pa.table({str(n): column for n, column in enumerate(columns)})
    csv.write_csv(table, path, csv.WriteOptions(include_header=False))


def answer_columns(kind: str, answers: Columns) -> list[Column]:
    """The output columns of answers: their type, then the columns of their kind."""
    number, names = ANSWERS[kind]
    return [np.full(len(answers["time"]), number), *(answers[name] for name in names)]


def split_batches(rows: Columns, seconds: int) -> Iterator[Columns]:
    """Rows in batches of a number of seconds; the rows of a second stay together, and empty batches are omitted."""
    times = rows["time"]
    bounds = np.searchsorted(times, np.arange(times[0] // seconds, times[-1] // seconds + 2) * seconds)
    for begin, end in pairwise(bounds):
        if begin < end:
            yield {name: column[begin:end] for name, column in rows.items()}


def concat_batches(batches: Sequence[Columns]) -> Columns:
    """The rows of several batches as one."""
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def _read_csv(path: Path, names: tuple[str, ...]) -> Columns:
    options = csv.ReadOptions(column_names=names)
    try:
        table = csv.read_csv(
            path, options, convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.int64()))
        )
    except pa.ArrowInvalid as error:
        raise BadInput(f"{path}: expected rows of {len(names)} whole numbers ({','.join(names)}): {error}") from error
    return {name: table.column(name).to_numpy() for name in names}
