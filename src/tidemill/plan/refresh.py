"""Which way to refresh a declared table: incrementally or in batch.

What a way costs is estimated from the rows it must look at; how its past runs compared with their estimates corrects
the next. A way that is impossible has no cost but a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import median

from tidemill.algebra.program import Way


@dataclass(frozen=True, slots=True)
class Reading:
    """What a refresh would find on one of its channels."""

    channel: str
    content: int  # rows of its content, about
    change: int  # rows that changed since the table was last refreshed, about
    consumed: bool = True  # was it consumed before, by this very query?
    replaced: bool = False  # was its content replaced meanwhile, so that no deltas lead to it?
    grows: bool = False  # is the query entitled to think that rows are only added?


@dataclass(frozen=True, slots=True)
class Past:
    """One past run of the table."""

    way: str
    content: int
    change: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds of a way: to start, and for each row of what changed and of everything."""

    start: float
    change: float
    content: float

    def seconds(self, content: int, change: int) -> float:
        return self.start + self.change * change + self.content * content


PRIORS: Mapping[str, Rates] = {
    Way.BATCH: Rates(start=0.3, change=0.0, content=1.4e-6),
    Way.RECOMPUTE: Rates(start=0.3, change=0.0, content=1.1e-6),
    Way.INCREMENTAL: Rates(start=0.3, change=4.5e-6, content=0.08e-6),
}
"""Before a way was ever tried (docs/benchmarks.md)."""


AFTERWARDS = 1.5e-6
"""Seconds for each row of everything, if so much changed that compaction makes a new base of the result at once."""

REBASED = 0.3
"""The share of a content from which on that is so."""

WORTH = 0.25
"""Seconds that dropping the state must save: the next refresh may have to make it again."""


class State(Enum):
    """Of what a refresh keeps besides its result."""

    NONE = "none"  # it keeps nothing
    KEPT = "kept"
    DROPPED = "dropped"  # by a refresh that computed everything anew, and the result alone


@dataclass(frozen=True, slots=True)
class Option:
    """One way: the rows it looks at and what it would cost, or why it is impossible."""

    way: str
    rows: int
    seconds: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The way chosen, why, and everything that was weighed."""

    way: str
    why: str
    options: tuple[Option, ...]


def choose(
    readings: Iterable[Reading],
    past: Iterable[Past],
    *,
    wanted: str = "auto",
    only_batch: str | None = None,
    state: State = State.NONE,
) -> Choice:
    """The cheapest possible way; `wanted` is what the user chose, `only_batch` why there is no other way."""
    found, runs = list(readings), list(past)
    content, change = sum(r.content for r in found), sum(r.change for r in found)
    cost = {way: _estimate(way, content, change, runs) for way in PRIORS}
    cost[Way.INCREMENTAL] += AFTERWARDS * content if change > REBASED * content else 0.0
    anew = [Way.BATCH] if state is State.NONE else [Way.BATCH, Way.RECOMPUTE]
    options = tuple(Option(way, content, cost[way]) for way in anew)
    obstacle = only_batch or _obstacle(found) or (_DROPPED if state is State.DROPPED else None)
    if obstacle is not None:
        impossible = (*options, Option(Way.INCREMENTAL, change, None, obstacle))
        if wanted == Way.RECOMPUTE and Way.RECOMPUTE in anew:
            return Choice(Way.RECOMPUTE, f"refresh is {wanted!r}", impossible)
        again = obstacle is _DROPPED and wanted == "auto" and cost[Way.RECOMPUTE] + WORTH < cost[Way.INCREMENTAL]
        return Choice(Way.RECOMPUTE if again else Way.BATCH, obstacle, impossible)
    options = (*options, Option(Way.INCREMENTAL, change, cost[Way.INCREMENTAL]))
    if wanted != "auto":
        way = Way.INCREMENTAL if wanted == "incremental_strict" else wanted
        return Choice(way, f"refresh is {wanted!r}", options)
    paid = {Way.RECOMPUTE: WORTH}
    cheapest = min(options, key=lambda o: ((o.seconds or 0.0) + paid.get(Way(o.way), 0.0), o.way == Way.BATCH))
    return Choice(cheapest.way, f"{change} of {content} rows changed", options)


_DROPPED = "its state was dropped when everything was last computed anew"


def _obstacle(readings: list[Reading]) -> str | None:
    """Why a refresh cannot go on from the last."""
    for reading in readings:
        if not reading.consumed:
            return f"there is nothing to go on from: {reading.channel} was never consumed by this query"
        if reading.replaced and reading.grows:
            return f"the content of {reading.channel} was replaced"
    return None


ENOUGH = 3
"""Runs of a way that speak for it alone. Fewer may have been cold: they say how fast the machine is, for all ways."""


def _estimate(way: str, content: int, change: int, past: list[Past]) -> float:
    ratios = [(p.way, p.seconds / PRIORS[p.way].seconds(p.content, p.change)) for p in past if p.way in PRIORS]
    own = [ratio for of, ratio in ratios if of == way]
    known = own if len(own) >= ENOUGH else [ratio for _, ratio in ratios]
    correction = median(known) if known else 1.0
    return PRIORS[way].seconds(content, change) * min(10.0, max(0.1, correction))
