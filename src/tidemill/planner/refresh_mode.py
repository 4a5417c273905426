"""Chooses the refresh mode of a declared table: incremental or batch.

The cost of a mode is estimated by a model fitted from its runs. An impossible mode has no cost but a reason.
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
    """The state of one of a refresh's channels."""

    channel: str
    content: int  # approximate rows of its content
    change: int  # approximate rows that changed since the last refresh
    bytes: int = 0  # of its content
    change_bytes: int = 0  # bytes of the change
    consumed: bool = True  # whether this query has consumed it before
    replaced: bool = False  # whether its content was replaced, so that no deltas lead to it
    append_only: bool = False  # whether the query relies on rows being only added


PRIORS: Mapping[str, CostTerms] = {
    RefreshMode.BATCH: CostTerms(start=0.3, change=1e-9, content=1.4e-6, byte=1e-11),
    RefreshMode.RECOMPUTE: CostTerms(start=0.3, change=1e-9, content=1.1e-6, byte=1e-11),
    RefreshMode.INCREMENTAL: CostTerms(start=0.2, change=1.2e-6, content=0.08e-6, byte=1e-11),
}
"""Priors of the modes, as measured (docs/benchmarks.md); bytes hardly count until runs show that they do."""


def build_prior(variant: str, outputs: int) -> CostModel:
    """Return the cost model of a variant before its first run; the batch prior for an unknown variant."""
    mode = variant.split(":", 1)[0]
    return guess_cost_model(PRIORS.get(mode, PRIORS[RefreshMode.BATCH]), *([1.0] * outputs))


COMPACTION_BYTE_SECONDS = 1.2e-8
"""Seconds for each byte of the result, if the change is so large that compaction writes a new base at once."""

MAJOR_COMPACTION_SHARE = 1 / 3
"""The changed share of a content above which it does: a changed row is two signed rows, and if these outnumber the
rows of the base, compaction does not wait for readers."""

STATE_DROP_GAIN = 0.25
"""Seconds that dropping the state must save, because the next refresh may have to rebuild it."""


class StateStatus(Enum):
    """Status of the state that a refresh keeps besides its result."""

    NONE = "none"  # the table has no state
    KEPT = "kept"
    DROPPED = "dropped"  # by a refresh that recomputed the result only


@dataclass(frozen=True, slots=True)
class RefreshOption:
    """One refresh mode: the rows it reads and its cost, or why it is impossible."""

    mode: str
    rows: int
    seconds: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RefreshChoice:
    """The chosen mode, the reason, and all options that were compared."""

    mode: str
    reason: str
    options: tuple[RefreshOption, ...]


def choose_mode(
    readings: Iterable[ChannelReading],
    models: Mapping[str, CostModel],
    *,
    declared: str = "auto",
    only_batch: str | None = None,
    state: StateStatus = StateStatus.NONE,
) -> RefreshChoice:
    """Choose the cheapest possible mode; `declared` is the declared one, `only_batch` why no other is possible."""
    channels = list(readings)
    content, change = sum(r.content for r in channels), sum(r.change for r in channels)
    cost = estimate_modes(channels, models)
    size = sum(r.bytes for r in channels)
    cost[RefreshMode.INCREMENTAL] += estimate_compaction(
        models.get(RefreshMode.BATCH), ScanVolume(change, content), size
    )
    full_modes = [RefreshMode.BATCH] if state is StateStatus.NONE else [RefreshMode.BATCH, RefreshMode.RECOMPUTE]
    options = tuple(RefreshOption(mode, content, cost[mode]) for mode in full_modes)
    obstacle = only_batch or _find_obstacle(channels) or (_DROPPED if state is StateStatus.DROPPED else None)
    if obstacle is not None:
        impossible = (*options, RefreshOption(RefreshMode.INCREMENTAL, change, None, obstacle))
        if declared == RefreshMode.RECOMPUTE and RefreshMode.RECOMPUTE in full_modes:
            return RefreshChoice(RefreshMode.RECOMPUTE, f"refresh is {declared!r}", impossible)
        keep_dropped = (
            obstacle is _DROPPED
            and declared == "auto"
            and cost[RefreshMode.RECOMPUTE] + STATE_DROP_GAIN < cost[RefreshMode.INCREMENTAL]
        )
        return RefreshChoice(RefreshMode.RECOMPUTE if keep_dropped else RefreshMode.BATCH, obstacle, impossible)
    options = (*options, RefreshOption(RefreshMode.INCREMENTAL, change, cost[RefreshMode.INCREMENTAL]))
    if declared != "auto":
        mode = RefreshMode.INCREMENTAL if declared == "incremental_strict" else declared
        return RefreshChoice(mode, f"refresh is {declared!r}", options)
    surcharges = {RefreshMode.RECOMPUTE: STATE_DROP_GAIN}
    cheapest = min(
        options,
        key=lambda o: ((o.seconds or 0.0) + surcharges.get(RefreshMode(o.mode), 0.0), o.mode == RefreshMode.BATCH),
    )
    return RefreshChoice(cheapest.mode, f"{change} of {content} rows changed", options)


def estimate_modes(readings: Iterable[ChannelReading], cost_models: Mapping[str, CostModel]) -> dict[str, float]:
    """Estimate the seconds of each mode; `cost_models` has the cost models of those that ever ran."""
    channels = list(readings)
    content, size = sum(r.content for r in channels), sum(r.bytes for r in channels)
    full_volume = ScanVolume(0, content, size)
    change = sum(r.change for r in channels)
    change_volume = ScanVolume(change, content, sum(r.change_bytes for r in channels), compute_spread_factor(change))
    models = {mode: cost_models.get(mode) or build_prior(mode, 1) for mode in PRIORS}
    return {
        mode: estimate_seconds(mode, models, change_volume if mode == RefreshMode.INCREMENTAL else full_volume)
        for mode in PRIORS
    }


def estimate_compaction(batch: CostModel | None, volume: ScanVolume, size: float) -> float:
    """Estimate the seconds of the compaction right after an incremental refresh of this volume and content size.

    The size of the result is estimated from batch runs.
    """
    if volume.change <= MAJOR_COMPACTION_SHARE * volume.content:
        return 0.0
    results = (batch or build_prior(RefreshMode.BATCH, 1)).estimate_run(ScanVolume(0, volume.content, size)).sizes
    return COMPACTION_BYTE_SECONDS * sum(result.bytes for result in results)


_DROPPED = "its state was dropped by the last recomputation"


def _find_obstacle(readings: list[ChannelReading]) -> str | None:
    """Return why a refresh cannot continue from the last one, or None."""
    for reading in readings:
        if not reading.consumed:
            return f"there is no previous refresh to continue from: this query never consumed {reading.channel}"
        if reading.replaced and reading.append_only:
            return f"the content of {reading.channel} was replaced"
    return None
