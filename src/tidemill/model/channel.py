"""Channel declarations. A channel is a time-varying relation; its blocks live in the catalog and the block store."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tidemill.model.change import INTERNAL_PREFIX, RESERVED_COLUMNS, Append, Updates
from tidemill.model.freshness_target import NO_TARGET, FreshnessTarget
from tidemill.model.location import UNKNOWN_LOCATION, SourceLocation
from tidemill.model.schema import Schema

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z")


def is_valid_name(name: str) -> bool:
    """Whether a name consists of identifiers, separated by dots where flows nest.

    >>> is_valid_name("news.tagged"), is_valid_name("../etc"), is_valid_name("1st")
    (True, False, False)
    """
    return len(name) <= 200 and _NAME.match(name) is not None


class ChannelRole(StrEnum):
    INPUT = "input"  # fed by inserts and sources
    DERIVED = "derived"  # written by tasks
    STATE = "state"  # internal state of a declared table, for incremental refresh


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as declared. A derived channel without a schema takes the schema of its first block."""

    name: str
    role: ChannelRole
    schema: Schema | None = None
    updates: Updates = Append()
    location: SourceLocation = UNKNOWN_LOCATION
    freshness_target: FreshnessTarget = NO_TARGET

    def find_problems(self) -> Iterator[str]:
        if not is_valid_name(self.name):
            yield f"{self.name!r} is not a name: use letters, digits and underscores, not starting with a digit"
        if self.schema is None:
            if self.role is ChannelRole.INPUT:
                yield f"input channel {self.name!r} needs a schema, e.g. 'url string, hits bigint'"
            if self.updates.key:
                yield f"channel {self.name!r} has a key, so it needs a schema"
            return
        for name in self.schema.names:
            if name.lower() in RESERVED_COLUMNS or name.lower().startswith(INTERNAL_PREFIX):
                yield f"channel {self.name!r}: column {name!r} is reserved for deltas; choose another name"
        if self.role is ChannelRole.INPUT:
            for field in (f for f in self.schema if not f.is_exchangeable):
                yield f"channel {self.name!r}: column {field.name!r}: unsupported type {field.type.lower()!r}"
        yield from (f"channel {self.name!r}: {p}" for p in self.updates.find_problems(self.schema))
