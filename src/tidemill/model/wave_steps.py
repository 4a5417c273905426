"""Steps that keep the tags of waves: where waves start, where events end, and where branches come together again.

Everything between is carried by a column, `wave`: a tag is data, for it goes out with an event and comes back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidemill.model.change import RESERVED
from tidemill.model.code import Json
from tidemill.model.schema import Schema
from tidemill.model.state_schema import StateSchema, widen_schema

WAVE = "wave"
"""The column in which events have their tags."""

TAGS = Schema.from_ddl(f"{WAVE} string")


def format_ended_channel(channel: str) -> str:
    """The channel that says which events ended on the way to this one, as nothing was made of them."""
    return f"{channel}_ended"


@dataclass(frozen=True, slots=True)
class WaveStartSpec:
    """Each event from outside starts a wave. `schema`, the columns of the events, becomes known with the channels."""

    schema: Schema = Schema(())

    ARGUMENT, EVENTS, LAST = "events", "tagged", "last"

    def bind_schema(self, schema: Schema, *, fed: bool) -> WaveStartSpec:
        """Events of derived channels may start waves as well: then all before is outside."""
        return WaveStartSpec(schema)

    @property
    def states(self) -> Mapping[str, StateSchema]:
        """The root that was given last: roots are never given twice."""
        return {self.LAST: StateSchema.from_ddl("what int, root bigint", "what")}

    @property
    def shapes(self) -> Mapping[str, Schema]:
        return {self.EVENTS: widen_schema(self.schema, f"{WAVE} string")}

    def describe_code(self) -> Json:
        return {"waves": "started", "of": str(self.schema)}

    def find_problems(self) -> Iterator[str]:
        for name in (*RESERVED, WAVE):
            if name in self.schema:
                yield f"waves start with events that are only added and have no tag yet; these have a column {name!r}"


@dataclass(frozen=True, slots=True)
class WaveEndSpec:
    """The tags of events of which a task made nothing, and of those that had ended before it."""

    EVENTS, RESULTS, BEFORE = "events", "results", "before"
    ENDED = "ended"

    @property
    def states(self) -> Mapping[str, StateSchema]:
        return {}

    @property
    def shapes(self) -> Mapping[str, Schema]:
        return {self.ENDED: TAGS}

    def describe_code(self) -> Json:
        return {"waves": "ended"}

    def find_problems(self) -> Iterator[str]:
        yield from ()


@dataclass(frozen=True, slots=True)
class WaveBarrierSpec:
    """The waves that are complete on each of several branches. A branch may come with a channel of what ended on it."""

    branches: Mapping[str, str]  # of each argument, the branch to which its tags belong

    TAGS, WAVES = "tags", "waves"

    @property
    def states(self) -> Mapping[str, StateSchema]:
        """The tags that came of waves that are not complete everywhere."""
        return {self.TAGS: StateSchema.from_ddl("branch string, tag string", ("branch", "tag"))}

    @property
    def shapes(self) -> Mapping[str, Schema]:
        return {self.WAVES: TAGS}

    def describe_code(self) -> Json:
        return {"waves": "synched", "branches": dict(self.branches)}

    def find_problems(self) -> Iterator[str]:
        if len(set(self.branches.values())) < 2:
            yield "branches come together where there are two or more; name them, e.g. ['billed', 'shipped']"


Waved = WaveStartSpec | WaveEndSpec | WaveBarrierSpec
