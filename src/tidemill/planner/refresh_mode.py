"""Which way to refresh a declared table: incrementally or in batch.

What a way costs is learnt from its runs and the rows they looked at. A way that is impossible has no cost but a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from tidemill.algebra.program import RefreshMode
from tidemill.planner.cost import (
    CostModel,
    CostTerms,
    ScanVolume,
    compute_spread_factor,
    estimate_seconds,
    guess_cost_model,
)


@dataclass(frozen=True, slots=True)
class ChannelReading:
    """What a refresh would find on one of its channels."""

    channel: str
    content: int  # rows of its content, about
    change: int  # rows that changed since the table was last refreshed, about
    bytes: int = 0  # of its content
    changed: int = 0  # bytes of what changed
    consumed: bool = True  # was it consumed before, by this very query?
    replaced: bool = False  # was its content replaced meanwhile, so that no deltas lead to it?
    grows: bool = False  # is the query entitled to think that rows are only added?


PRIORS: Mapping[str, CostTerms] = {
    RefreshMode.BATCH: CostTerms(start=0.3, change=1e-9, content=1.4e-6, byte=1e-11),
    RefreshMode.RECOMPUTE: CostTerms(start=0.3, change=1e-9, content=1.1e-6, byte=1e-11),
    RefreshMode.INCREMENTAL: CostTerms(start=0.2, change=1.2e-6, content=0.08e-6, byte=1e-11),
}
"""Before a way was ever tried, by what was measured (docs/benchmarks.md); bytes hardly count until runs say so."""


def build_prior(variant: str, outputs: int) -> CostModel:
    """What is known of a variant before its first run. Of one that is no way known here, what is known of all anew."""
    way = variant.split(":", 1)[0]
    return guess_cost_model(PRIORS.get(way, PRIORS[RefreshMode.BATCH]), *([1.0] * outputs))


AFTERWARDS = 1.2e-8
"""Seconds for each byte of the result, if so much changed that compaction makes a new base of it at once."""

REBASED = 1 / 3
"""The share of a content from which on that is so: a changed row is two signed ones, and if they are more than the base
has, nobody waits for readers."""

WORTH = 0.25
"""Seconds that dropping the state must save: the next refresh may have to make it again."""


class StateStatus(Enum):
    """Of what a refresh keeps besides its result."""

    NONE = "none"  # it keeps nothing
    KEPT = "kept"
    DROPPED = "dropped"  # by a refresh that computed everything anew, and the result alone


@dataclass(frozen=True, slots=True)
class RefreshOption:
    """One way: the rows it looks at and what it would cost, or why it is impossible."""

    way: str
    rows: int
    seconds: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RefreshChoice:
    """The way chosen, why, and everything that was weighed."""

    way: str
    why: str
    options: tuple[RefreshOption, ...]


def choose_mode(
    readings: Iterable[ChannelReading],
    learnt: Mapping[str, CostModel],
    *,
    wanted: str = "auto",
    only_batch: str | None = None,
    state: StateStatus = StateStatus.NONE,
) -> RefreshChoice:
    """The cheapest possible way; `wanted` is what the user chose, `only_batch` why there is no other way."""
    found = list(readings)
    content, change = sum(r.content for r in found), sum(r.change for r in found)
    cost = estimate_modes(found, learnt)
    size = sum(r.bytes for r in found)
    cost[RefreshMode.INCREMENTAL] += estimate_compaction(
        learnt.get(RefreshMode.BATCH), ScanVolume(change, content), size
    )
    anew = [RefreshMode.BATCH] if state is StateStatus.NONE else [RefreshMode.BATCH, RefreshMode.RECOMPUTE]
    options = tuple(RefreshOption(way, content, cost[way]) for way in anew)
    obstacle = only_batch or _find_obstacle(found) or (_DROPPED if state is StateStatus.DROPPED else None)
    if obstacle is not None:
        impossible = (*options, RefreshOption(RefreshMode.INCREMENTAL, change, None, obstacle))
        if wanted == RefreshMode.RECOMPUTE and RefreshMode.RECOMPUTE in anew:
            return RefreshChoice(RefreshMode.RECOMPUTE, f"refresh is {wanted!r}", impossible)
        again = (
            obstacle is _DROPPED
            and wanted == "auto"
            and cost[RefreshMode.RECOMPUTE] + WORTH < cost[RefreshMode.INCREMENTAL]
        )
        return RefreshChoice(RefreshMode.RECOMPUTE if again else RefreshMode.BATCH, obstacle, impossible)
    options = (*options, RefreshOption(RefreshMode.INCREMENTAL, change, cost[RefreshMode.INCREMENTAL]))
    if wanted != "auto":
        way = RefreshMode.INCREMENTAL if wanted == "incremental_strict" else wanted
        return RefreshChoice(way, f"refresh is {wanted!r}", options)
    paid = {RefreshMode.RECOMPUTE: WORTH}
    cheapest = min(
        options, key=lambda o: ((o.seconds or 0.0) + paid.get(RefreshMode(o.way), 0.0), o.way == RefreshMode.BATCH)
    )
    return RefreshChoice(cheapest.way, f"{change} of {content} rows changed", options)


def estimate_modes(readings: Iterable[ChannelReading], learnt: Mapping[str, CostModel]) -> dict[str, float]:
    """Seconds of each way; `learnt` has what its runs have taught, of those that ever ran."""
    found = list(readings)
    content, size = sum(r.content for r in found), sum(r.bytes for r in found)
    anew = ScanVolume(0, content, size)
    change = sum(r.change for r in found)
    part = ScanVolume(change, content, sum(r.changed for r in found), compute_spread_factor(change))
    known = {way: learnt.get(way) or build_prior(way, 1) for way in PRIORS}
    return {way: estimate_seconds(way, known, part if way == RefreshMode.INCREMENTAL else anew) for way in PRIORS}


def estimate_compaction(batch: CostModel | None, looked: ScanVolume, size: float) -> float:
    """Seconds of compaction right after an incremental refresh that looks at so much of contents of so many bytes.

    How much of them the result is, runs in batch have taught.
    """
    if looked.change <= REBASED * looked.content:
        return 0.0
    results = (batch or build_prior(RefreshMode.BATCH, 1)).estimate_run(ScanVolume(0, looked.content, size)).sizes
    return AFTERWARDS * sum(result.bytes for result in results)


_DROPPED = "its state was dropped when everything was last computed anew"


def _find_obstacle(readings: list[ChannelReading]) -> str | None:
    """Why a refresh cannot go on from the last."""
    for reading in readings:
        if not reading.consumed:
            return f"there is nothing to go on from: {reading.channel} was never consumed by this query"
        if reading.replaced and reading.grows:
            return f"the content of {reading.channel} was replaced"
    return None
