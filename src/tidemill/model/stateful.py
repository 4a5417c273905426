"""Stateful tasks: declarations of their state and outputs.

State is stored in channels like all other data: a base, and from each run a delta of changed rows by key, committed
together with the outputs and the cursors. `stream` and the engine implement the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidemill.model.change import RESERVED_COLUMNS
from tidemill.model.code import Json, trace_code
from tidemill.model.schema import Schema, StateSchema, widen_schema
from tidemill.model.wave_steps import WAVE, WaveTaskSpec
from tidemill.model.window import Unit, Window

EVENT, GROUP, NUMBERS, USED = "_event", "_group", "_numbers", "_used"
WINDOW, START, END, FORMED, EVENTS = "_window", "_window_start", "_window_end", "_window_formed", "_events"
"""Columns of windows and of their state."""

NUMPY_TYPES = {
    "BOOLEAN": "?", "TINYINT": "i1", "SMALLINT": "i2", "INT": "i4", "BIGINT": "i8", "FLOAT": "f4", "DOUBLE": "f8",
}  # fmt: skip
"""Fixed-width types that keyed state may have, and their NumPy type codes."""

_INTEGER_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT")


@dataclass(frozen=True, slots=True)
class KeyedTaskSpec:
    """A vectorised function over a batch and the state rows of the batch's keys."""

    call: Callable[..., Any]
    state_schema: StateSchema
    output_schemas: Mapping[str, Schema]  # of the outputs, by argument
    partitions: int = 1  # of the state, when Spark's workers run it

    STATE = "state"

    @property
    def states(self) -> Mapping[str, StateSchema]:
        return {self.STATE: self.state_schema}

    def describe_code(self) -> Json:
        return trace_code(self.call).to_json() | {"state": str(self.state_schema.schema)}

    def find_problems(self) -> Iterator[str]:
        yield from self.state_schema.find_problems()
        if self.STATE in self.output_schemas:
            yield f"no output of it can be called {self.STATE!r}; give it another name"
        for column in self.state_schema.schema:
            if column.type not in NUMPY_TYPES:
                known = ", ".join(NUMPY_TYPES).lower()
                yield f"column {column.name!r} is {column.type}, but a row of state has a fixed width: use {known}"
            if column.name in self.state_schema.key and column.type not in _INTEGER_TYPES:
                yield f"its key {column.name!r} is {column.type}; use whole numbers, e.g. xxhash64 of a text"
        if self.partitions < 1:
            yield f"its partitions are at least 1, not {self.partitions}"


@dataclass(frozen=True, slots=True)
class OperatorTaskSpec:
    """A user-defined operator with any number of state tables; `factory` creates it from the parameters."""

    factory: Callable[..., Any]
    states: Mapping[str, StateSchema]
    output_schemas: Mapping[str, Schema]

    def describe_code(self) -> Json:
        states = {name: str(state.schema) for name, state in self.states.items()}
        return trace_code(self.factory).to_json() | {"states": states}

    def find_problems(self) -> Iterator[str]:
        for name in sorted({*self.states} & {*self.output_schemas}):
            yield f"{name!r} is both a kind of its state and an output; give one of them another name"
        for name, state in self.states.items():
            yield from (f"state {name!r}: {problem}" for problem in state.find_problems())


@dataclass(frozen=True, slots=True)
class WindowTaskSpec:
    """Windows over a channel of events, emitted as rows or aggregated."""

    window: Window
    sums: tuple[str, ...] | None = None  # columns to sum, besides the count; None: windows are emitted as rows
    schema: Schema = Schema(())  # the columns of the events; set by `bind_schema`
    is_input: bool = True  # whether they come from an input channel; set by `bind_schema`

    ARGUMENT, ENDED = "events", "ended"
    WINDOWS, EXPIRED, LATE = "windows", "expired", "late"
    QUEUE, GROUPS, WAVES = "queue", "groups", "waves"

    def bind_schema(self, schema: Schema, *, is_input: bool) -> WindowTaskSpec:
        return replace(self, schema=schema, is_input=is_input)

    @property
    def is_by_waves(self) -> bool:
        return self.window.unit_pair is not None and Unit.WAVES in self.window.unit_pair

    @property
    def states(self) -> Mapping[str, StateSchema]:
        """The queued events, the counters of each group, and the tags of incomplete waves."""
        states = {
            self.QUEUE: StateSchema(widen_schema(self.schema, _ENTRY), (EVENT,)),
            self.GROUPS: StateSchema(Schema.from_ddl(f"{GROUP} string, {NUMBERS} array<bigint>"), (GROUP,)),
        }
        return states | ({self.WAVES: StateSchema(Schema.from_ddl("tag string"), ("tag",))} if self.is_by_waves else {})

    @property
    def output_schemas(self) -> Mapping[str, Schema]:
        sums = "".join(f", `{name}` bigint" for name in self.sums or ())
        windows = widen_schema(self.schema, _WINDOW) if self.sums is None else Schema.from_ddl(_TOTALS + sums)
        expired = widen_schema(self.schema, f"{USED} boolean")
        return {self.WINDOWS: windows, self.EXPIRED: expired, self.LATE: self.schema}

    def describe_code(self) -> Json:
        return {"window": repr(self.window), "sums": self.sums and list(self.sums), "of": str(self.schema)}

    def find_problems(self) -> Iterator[str]:
        yield from self.window.find_problems()
        for name in RESERVED_COLUMNS:
            if name in self.schema:
                yield f"windows need a channel that only adds rows, and its events have {name!r}: rows may be deleted"
        columns = [*(key.column_name for key in self.window.by), *(self.sums or ()), self.window.time]
        for name in (column for column in columns if column is not None):
            if name not in self.schema:
                yield f"its events have no column {name!r} (they have {', '.join(self.schema.names)})"
            elif name in (self.sums or ()) and self.schema.get_field(name).type not in _INTEGER_TYPES:
                kind = self.schema.get_field(name).type
                yield f"column {name!r} is {kind}; only whole numbers can be subtracted exactly"
        for name in sorted({*Schema.from_ddl(_ENTRY).names, *Schema.from_ddl(_WINDOW).names} & {*self.schema.names}):
            yield f"its events have a column {name!r}, as windows do; give it another name first"
        if self.is_by_waves and WAVE not in self.schema:
            yield f"windows by waves need the tag of each event in the column {WAVE!r}, a string such as '17.2!'"


Stateful = KeyedTaskSpec | OperatorTaskSpec | WindowTaskSpec | WaveTaskSpec

_ENTRY = (
    f"{EVENT} bigint, {GROUP} string, _time bigint, _arrived bigint, _wave bigint, _closes boolean, "
    f"_opens boolean, {USED} boolean, _gone boolean, _rank bigint"
)
_WINDOW = f"{GROUP} string, {WINDOW} bigint, {START} timestamp, {END} timestamp, {FORMED} timestamp"
_TOTALS = f"{GROUP} string, {WINDOW} bigint, {START} timestamp, {END} timestamp, {EVENTS} bigint"
