"""Cost models of variants, fitted from their past runs.

A run costs something to start, something for each changed row, for each other row that it reads, and for each byte.
Before the first run there is a prior. Then the four terms are fitted to the runs, the latest counting most, by least
squares of errors relative to the prior; none is ever negative. The prior keeps a small weight for ever: where rows and
bytes are always proportional, runs cannot tell which of them costs, and the prior decides. The weight of the first runs
decays as fast as that of the prior: they are slow, because everything is cold, and small, because tables grow, and
together that looks as if rows cost nothing.

The output of a variant relative to its input is a ratio of sums that decay at the same rate.

A run that reads contents also pays for merging deltas into them: the ratio of that cost to its estimate is the slope of
the runs' excess over their expected cost, along those estimates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import combinations
from math import log
from statistics import mean
from typing import Any

from tidemill.planner.graph import EMPTY, BlockNode, BlockShape, DataSize
from tidemill.planner.steps import CostEstimate

DECAY = 0.9
"""Decay of a run's weight with each further run."""

PRIOR_WEIGHT = 1e-4
"""Permanent weight of the prior, in runs. At first its weight is one."""

COLD_DECAY = 0.1
"""Decay of the prior's weight with each run, and of a cold run's with the next: they may be off by any factor."""

MIN_RUNS = 3
"""Runs after which a variant is estimated from its own runs alone. Earlier ones may have been cold."""

MERGE_VARIANCE = 1.0
"""Total variation of merge estimates, in seconds squared, at which runs count as much as the estimate."""

SPREAD_ROWS = 6_000_000
SPREAD_FACTOR = 6.0
"""Rows of a change above which Spark's executors compute most steps, as a rule, and the cost factor of a row then."""

Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ScanVolume:
    """The volume that a run reads: changed rows, rows of contents, and the bytes of both."""

    change: float = 0.0
    content: float = 0.0
    bytes: float = 0.0

    @property
    def effort(self) -> float:
        """The changed rows, weighted by where they are likely to be computed."""
        return self.change if self.change <= SPREAD_ROWS else SPREAD_FACTOR * self.change

    @property
    def size(self) -> DataSize:
        """The volume that determines the output size: the change, if there is one, else the content."""
        return DataSize(self.change or self.content, self.bytes)


def measure_reads(reads: Iterable[BlockNode]) -> ScanVolume:
    blocks = list(reads)
    content = sum(b.size.rows for b in blocks if b.shape is BlockShape.BASE)
    change = sum(b.size.rows for b in blocks if b.shape is not BlockShape.BASE)
    return ScanVolume(change, content, sum(b.size.bytes for b in blocks))


@dataclass(frozen=True, slots=True)
class CostTerms:
    """The cost of a variant: to start, and for each row and byte that it reads."""

    start: float
    change: float  # per changed row
    content: float  # per row of a content
    byte: float

    def compute_cost(self, volume: ScanVolume) -> float:
        return sum(self.split_cost(volume))

    def split_cost(self, volume: ScanVolume) -> Numbers:
        return self.start, self.change * volume.effort, self.content * volume.content, self.byte * volume.bytes


@dataclass(frozen=True, slots=True)
class OutputRatio:
    """The ratio of output to input on one channel, as decaying sums."""

    read: DataSize = EMPTY
    written: DataSize = EMPTY

    def estimate_output(self, read: DataSize) -> DataSize:
        triples = zip(read, self.written, self.read, strict=True)
        return DataSize(*(size * wrote / total if total > 0 else 0.0 for size, wrote, total in triples))

    def add_run(self, read: DataSize, written: DataSize) -> OutputRatio:
        return OutputRatio(_decay_size(self.read) + read, _decay_size(self.written) + written)


@dataclass(frozen=True, slots=True)
class MergeCost:
    """The cost of merging in a variant's runs, as decaying sums; runs tell nothing while estimates hardly vary."""

    runs: float = 0.0
    estimated: float = 0.0
    excess: float = 0.0  # seconds by which runs took longer than expected
    squares: float = 0.0  # sum of squared estimates
    products: float = 0.0  # sum of products of both

    @property
    def cost_factor(self) -> float:
        """The ratio of the merge cost to its estimate."""
        if not self.runs:
            return 1.0
        variance = max(0.0, self.squares - self.estimated**2 / self.runs)
        covariance = self.products - self.estimated * self.excess / self.runs
        return min(10.0, max(0.0, (MERGE_VARIANCE + covariance) / (MERGE_VARIANCE + variance)))

    def add_run(self, estimate: float, excess: float) -> MergeCost:
        increments = (1.0, estimate, excess, estimate * estimate, estimate * excess)
        return MergeCost(*(DECAY * s + m for s, m in zip(astuple(self), increments, strict=True)))


@dataclass(frozen=True, slots=True)
class CostModel:
    """The cost model of a variant. `moments` and `cross` are the normal equations of the fit, in units of the prior."""

    prior: CostTerms  # the prior; no term is zero
    terms: CostTerms  # the fit
    output_ratios: tuple[OutputRatio, ...]  # for each output channel
    moments: tuple[Numbers, ...] = ((0.0,) * 4,) * 4
    cross: Numbers = (0.0,) * 4
    weight: float = 1.0  # of the prior, above its minimum
    runs: int = 0
    recent_cost: float = 0.0  # recent cost of a run
    merge_cost: MergeCost = MergeCost()

    def add_run(
        self, volume: ScanVolume, cost: float, written: Sequence[DataSize], merge_estimate: float | None = None
    ) -> CostModel:
        """Return the model after another run; `merge_estimate`: the estimated merge seconds, if it read contents."""
        scale = self.prior.compute_cost(volume)  # a fixed unit, so that the errors of all runs are comparable
        parts = [part / scale for part in self.prior.split_cost(volume)]
        decay = DECAY if self.runs >= MIN_RUNS else COLD_DECAY
        rows = zip(self.moments, parts, strict=True)
        moments = tuple(tuple(decay * m + a * b for m, b in zip(row, parts, strict=True)) for row, a in rows)
        cross = tuple(decay * c + a * cost / scale for c, a in zip(self.cross, parts, strict=True))
        weight = COLD_DECAY * self.weight
        merge_cost = self.merge_cost
        if merge_estimate is not None:
            merge_cost = merge_cost.add_run(merge_estimate, cost - self.terms.compute_cost(volume))
        return CostModel(
            self.prior,
            _fit_terms(self.prior, moments, cross, weight + PRIOR_WEIGHT),
            tuple(y.add_run(volume.size, m) for y, m in zip(self.output_ratios, written, strict=True)),
            *(moments, cross, weight, self.runs + 1),
            DECAY * self.recent_cost + (1 - DECAY) * cost if self.runs else cost,
            merge_cost,
        )

    def estimate_run(self, volume: ScanVolume) -> CostEstimate:
        sizes = tuple(ratio.estimate_output(volume.size) for ratio in self.output_ratios)
        return CostEstimate(self.terms.compute_cost(volume), sizes)

    def to_json(self) -> dict[str, Any]:
        return {
            "guess": list(astuple(self.prior)),
            "terms": list(astuple(self.terms)),
            "yields": [[*y.read, *y.written] for y in self.output_ratios],
            "moments": [list(row) for row in self.moments],
            "cross": list(self.cross),
            "weight": self.weight,
            "runs": self.runs,
            "usual": self.recent_cost,
            "merged": list(astuple(self.merge_cost)),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CostModel:
        yields = tuple(OutputRatio(DataSize(*y[:2]), DataSize(*y[2:])) for y in data["yields"])
        moments = tuple(tuple(row) for row in data["moments"])
        fit_state = (moments, tuple(data["cross"]), data["weight"], data["runs"], data["usual"])
        merged = MergeCost(*data.get("merged", ()))  # catalogs of older versions have none
        return cls(CostTerms(*data["guess"]), CostTerms(*data["terms"]), yields, *fit_state, merged)


CostModels = Mapping[str, CostModel]
"""By variant."""


def guess_cost_model(terms: CostTerms, *ratios: float) -> CostModel:
    """Return the model before the first run: the prior terms, and an output ratio for each output channel."""
    return CostModel(terms, terms, tuple(OutputRatio(DataSize(1.0, 1.0), DataSize(r, r)) for r in ratios))


def estimate_seconds(variant: str, models: CostModels, volume: ScanVolume) -> float:
    """Estimate the cost of a variant: below `MIN_RUNS` runs, its prior scaled by the errors of similar models."""
    model = models[variant]
    if model.runs >= MIN_RUNS:
        return model.terms.compute_cost(volume)
    prior_cost = model.prior.compute_cost(volume)
    fitted = [other for name, other in models.items() if other.runs and name != variant]
    similar = sorted(fitted, key=lambda other: abs(log(other.prior.compute_cost(volume) / prior_cost)))[:1]
    known = [other for other in (*similar, model) if other.runs]
    ratios = [other.terms.compute_cost(volume) / other.prior.compute_cost(volume) for other in known]
    return prior_cost * min(10.0, max(0.1, mean(ratios) if ratios else 1.0))


def _fit_terms(guess: CostTerms, moments: Sequence[Numbers], cross: Numbers, ridge: float) -> CostTerms:
    matrix = [[m + ridge * (i == j) for j, m in enumerate(row)] for i, row in enumerate(moments)]
    factors = _solve_nonnegative(matrix, [c + ridge for c in cross])
    fitted = CostTerms(*(factor * term for factor, term in zip(factors, astuple(guess), strict=True)))
    return replace(fitted, start=max(fitted.start, 1e-9 * guess.start))  # positive even if all runs were free


def _solve_nonnegative(matrix: list[list[float]], cross: list[float]) -> Numbers:
    """Solve the least squares with nonnegative terms: with four terms, all subsets can be tried."""
    size = len(cross)
    best: Numbers = (0.0,) * size
    best_error = 0.0
    for count in range(1, size + 1):
        for subset in combinations(range(size), count):
            solution = _solve_linear([[matrix[i][j] for j in subset] for i in subset], [cross[i] for i in subset])
            if solution is None or min(solution) < 0:
                continue
            error = -sum(s * cross[i] for s, i in zip(solution, subset, strict=True))  # without the common constant
            if error < best_error:
                terms = dict(zip(subset, solution, strict=True))
                best, best_error = tuple(terms.get(i, 0.0) for i in range(size)), error
    return best


def _solve_linear(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """Solve a symmetric positive definite system by Gaussian elimination; None if it is not positive definite."""
    size = len(right)
    rows = [[*row, r] for row, r in zip(matrix, right, strict=True)]
    for i in range(size):
        if rows[i][i] <= 0:
            return None
        for k in range(i + 1, size):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    solution = [0.0] * size
    for i in reversed(range(size)):
        substituted = sum(rows[i][j] * solution[j] for j in range(i + 1, size))
        solution[i] = (rows[i][size] - substituted) / rows[i][i]
    return solution


def _decay_size(size: DataSize) -> DataSize:
    return DataSize(DECAY * size.rows, DECAY * size.bytes)
