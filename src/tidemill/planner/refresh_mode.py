"""The refresh modes of a declared table: which of them are usable now, their costs, and the record of a choice.

The cost of a mode is estimated by a model fitted from its runs. The planner compares the usable modes.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from tidemill.algebra.program import RefreshMode, VariantName
from tidemill.planner.cost import CostModel, CostModels, CostTerms, ScanVolume, estimate_seconds, guess_cost_model


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


class StateStatus(Enum):
    """Status of the state that a refresh keeps besides its result."""

    NONE = "none"  # the table has no state
    KEPT = "kept"
    DROPPED = "dropped"  # by a refresh that recomputed the result only


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a declared table, from which its usable refresh modes follow."""

    readings: tuple[ChannelReading, ...]
    state: StateStatus = StateStatus.NONE
    disabled: str | None = None  # why incremental refresh is not allowed; None: it is

    @property
    def content(self) -> int:
        return sum(r.content for r in self.readings)

    @property
    def change(self) -> int:
        return sum(r.change for r in self.readings)

    @property
    def full_volume(self) -> ScanVolume:
        return ScanVolume(0, self.content, sum(r.bytes for r in self.readings))

    @property
    def change_volume(self) -> ScanVolume:
        change_bytes = sum(r.change_bytes for r in self.readings)
        return ScanVolume(self.change, self.content, change_bytes)

    def find_obstacle(self) -> str | None:
        """Return why a refresh cannot continue from the last one, or None."""
        if self.disabled is not None:
            return self.disabled
        for reading in self.readings:
            if not reading.consumed:
                return f"there is no previous refresh to continue from: this query never consumed {reading.channel}"
            if reading.replaced and reading.append_only:
                return f"the content of {reading.channel} was replaced"
        return DROPPED_STATE if self.state is StateStatus.DROPPED else None


DROPPED_STATE = "its state was dropped by the last recomputation"

PRIORS: Mapping[str, CostTerms] = {
    RefreshMode.BATCH: CostTerms(start=0.3, change=1e-9, content=1.4e-6, byte=1e-11),
    RefreshMode.RECOMPUTE: CostTerms(start=0.3, change=1e-9, content=1.1e-6, byte=1e-11),
    RefreshMode.INCREMENTAL: CostTerms(start=0.2, change=1.2e-6, content=0.08e-6, byte=1e-11),
}
"""Priors of the modes, as measured (docs/benchmarks.md); bytes hardly count until runs show that they do."""


def build_prior(variant: str, outputs: int) -> CostModel:
    """Return the cost model of a variant before its first run; the batch prior for an unknown variant."""
    terms = PRIORS.get(VariantName.from_text(variant).mode, PRIORS[RefreshMode.BATCH])
    return guess_cost_model(terms, *([1.0] * outputs))


COMPACTION_BYTE_SECONDS = 1.2e-8
"""Seconds for each byte of the result, if the change is so large that compaction writes a new base at once."""

MAJOR_COMPACTION_SHARE = 1 / 3
"""The changed share of a content above which it does: a changed row is two signed rows, and if these outnumber the
rows of the base, compaction does not wait for readers."""

STATE_DROP_GAIN = 0.25
"""Seconds that dropping the state must save, because the next refresh may have to rebuild it."""


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


def find_possible_variants(table: TableState, variants: Collection[str], models: CostModels) -> frozenset[str]:
    """Return the variants that can refresh a table now; a lost state stays lost if it does not pay to rebuild it."""
    obstacle = table.find_obstacle()
    if obstacle is None:
        return frozenset(variants)
    size = table.full_volume.bytes
    recompute = estimate_refresh(RefreshMode.RECOMPUTE, models, table.full_volume, size)
    incremental = estimate_refresh(RefreshMode.INCREMENTAL, models, table.change_volume, size)  # if it had its state
    stays_dropped = obstacle is DROPPED_STATE and incremental > recompute + STATE_DROP_GAIN
    full_modes = {RefreshMode.BATCH, RefreshMode.RECOMPUTE} if stays_dropped else {RefreshMode.BATCH}
    return frozenset(variants) & full_modes


def select_declared_variants(possible: frozenset[str], declared: str) -> frozenset[str]:
    """Return the variants of the declared mode if they are possible, else all possible variants."""
    mode = RefreshMode.INCREMENTAL if declared == "incremental_strict" else declared
    return frozenset(v for v in possible if VariantName.from_text(v).mode == mode) or possible


def complete_cost_models(models: CostModels, variants: Iterable[str], outputs: int) -> dict[str, CostModel]:
    """Return a cost model of each refresh mode and variant: the fitted one, or the prior before its first run."""
    fitted = {name: model for name, model in models.items() if len(model.output_ratios) == outputs}
    return {str(n): fitted.get(n) or build_prior(n, outputs) for n in dict.fromkeys((*PRIORS, *variants))}


def estimate_refresh(variant: str, models: CostModels, volume: ScanVolume, size: float) -> float:
    """Estimate the seconds of a refresh that reads contents of this size, with the compaction right after it."""
    seconds = estimate_seconds(variant, models, volume)
    if VariantName.from_text(variant).mode != RefreshMode.INCREMENTAL:
        return seconds
    return seconds + estimate_compaction(models[RefreshMode.BATCH], volume, size)


def estimate_compaction(batch: CostModel, volume: ScanVolume, size: float) -> float:
    """Estimate the seconds of the compaction after such an incremental refresh; batch runs tell the result's size."""
    if volume.change <= MAJOR_COMPACTION_SHARE * volume.content:
        return 0.0
    results = batch.estimate_run(ScanVolume(0, volume.content, size)).sizes
    return COMPACTION_BYTE_SECONDS * sum(result.bytes for result in results)
