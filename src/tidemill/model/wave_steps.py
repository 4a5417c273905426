"""Wave tasks: they start waves, record events that end, and join branches at a barrier.

Between them the column `wave` carries the tag: it is data, since it leaves with an event and returns with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from tidemill.model.change import RESERVED_COLUMNS
from tidemill.model.code import Json
from tidemill.model.schema import Schema, StateSchema, widen_schema

WAVE = "wave"
"""The column that holds the events' tags."""

TAG_SCHEMA = Schema.from_ddl(f"{WAVE} string")


def format_ended_channel(channel: str) -> str:
    """The name of the channel with the tags of events that ended before this channel, without results."""
    return f"{channel}_ended"


@dataclass(frozen=True, slots=True)
class WaveStartSpec:
    """Starts a wave for each external event. `schema`, the columns of the events, is set by `bind_schema`."""

    schema: Schema = Schema(())

    ARGUMENT, EVENTS, LAST = "events", "tagged", "last"

    def bind_schema(self, schema: Schema, *, is_input: bool) -> WaveStartSpec:
        """Events of derived channels may start waves as well: then everything before them is external."""
        return WaveStartSpec(schema)

    @property
    def states(self) -> Mapping[str, StateSchema]:
        """The last root that was assigned: roots are unique."""
        return {self.LAST: StateSchema.from_ddl("what int, root bigint", "what")}

    @property
    def output_schemas(self) -> Mapping[str, Schema]:
        return {self.EVENTS: widen_schema(self.schema, f"{WAVE} string")}

    def describe_code(self) -> Json:
        return {"waves": "started", "of": str(self.schema)}

    def find_problems(self) -> Iterator[str]:
        for name in (*RESERVED_COLUMNS, WAVE):
            if name in self.schema:
                yield f"waves start with events that are only added and have no tag yet; these have a column {name!r}"


@dataclass(frozen=True, slots=True)
class WaveEndSpec:
    """Emits the tags of events for which a task has no results, and of events that had ended before it."""

    EVENTS, RESULTS, BEFORE, ENDED = "events", "results", "before", "ended"

    states: ClassVar[Mapping[str, StateSchema]] = {}
    output_schemas: ClassVar[Mapping[str, Schema]] = {ENDED: TAG_SCHEMA}

    def describe_code(self) -> Json:
        return {"waves": "ended"}

    def find_problems(self) -> Iterator[str]:
        yield from ()


@dataclass(frozen=True, slots=True)
class WaveBarrierSpec:
    """Emits the waves that are complete on all branches. A branch may have an additional channel of ended events."""

    branches: Mapping[str, str]  # by argument, the branch to which its tags belong

    TAGS, WAVES = "tags", "waves"

    states: ClassVar[Mapping[str, StateSchema]] = {
        TAGS: StateSchema.from_ddl("branch string, tag string", ("branch", "tag"))  # of incomplete waves
    }
    output_schemas: ClassVar[Mapping[str, Schema]] = {WAVES: TAG_SCHEMA}

    def describe_code(self) -> Json:
        return {"waves": "synched", "branches": dict(self.branches)}

    def find_problems(self) -> Iterator[str]:
        if len(set(self.branches.values())) < 2:
            yield "a barrier needs two or more branches; name them, e.g. ['billed', 'shipped']"


WaveTaskSpec = WaveStartSpec | WaveEndSpec | WaveBarrierSpec
