"""What a variant costs, learnt from its own runs.

A run costs something to start, something for each row that changed, for each row that it looks at otherwise, and for
each byte. Before the first run there is a guess. Then the four are fitted to the runs, the latest counting most, by
least squares of errors relative to the guess; none is ever negative. The guess keeps a little weight for ever: where
rows and bytes always go together, runs cannot say which of them costs, and the guess decides. The first runs soon count
as little as the guess does: they are slow, because everything is cold, and small, because tables grow, and together
that looks as if rows cost nothing.

How much a variant makes of what it reads is a ratio of sums that forget at the same pace.

And a run that reads contents pays for what was not merged into them yet: how much, beside what was guessed, is the
slope of what runs took over what was expected of them, along those guesses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import log
from statistics import mean
from typing import Any

from tidemill.algebra.program import COLLECTED
from tidemill.planner.graph import EMPTY, BlockNode, BlockShape, DataSize
from tidemill.planner.steps import CostEstimate

KEPT = 0.9
"""How much a run still counts after the next one."""

GUESS = 1e-4
"""How much the guess counts for ever, in runs. At first it counts as one."""

DOUBTED = 0.1
"""How much the guess still counts after a run, and a cold run after the next: they may be off by any factor."""

ENOUGH = 3
"""Runs of a variant that speak for it alone. Earlier ones may have been cold: others say how fast the machine is."""

SURE = 1.0
"""Seconds squared that guesses of merging must have varied by, in sum, for runs to say as much as the guess does."""

SPREAD = 6.0
"""How many times as long a row takes of a change that is too large to be collected."""

Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ScanVolume:
    """What a run looks at: rows that changed, rows of contents, and the bytes of both."""

    change: float = 0.0
    content: float = 0.0
    bytes: float = 0.0
    times: float = 1.0  # as long as usual, for each row that changed

    @property
    def effort(self) -> float:
        return self.times * self.change

    @property
    def size(self) -> DataSize:
        """What it makes something of: of what changed, if anything did."""
        return DataSize(self.change or self.content, self.bytes)


def measure_reads(reads: Iterable[BlockNode]) -> ScanVolume:
    sizes = [(b.shape is BlockShape.BASE, b.size) for b in reads]
    content = sum(size.rows for base, size in sizes if base)
    change = sum(size.rows for base, size in sizes if not base)
    return ScanVolume(change, content, sum(size.bytes for _, size in sizes), compute_spread_factor(change))


def compute_spread_factor(change: float) -> float:
    """How many times as long as usual a refresh takes for each of so many rows that changed."""
    return 1.0 if change <= COLLECTED else SPREAD


@dataclass(frozen=True, slots=True)
class CostTerms:
    """What a variant costs: to start, and for each row and byte that it looks at."""

    start: float
    change: float  # a row that changed
    content: float  # a row of a content
    byte: float

    def compute_cost(self, at: ScanVolume) -> float:
        return self.start + self.change * at.effort + self.content * at.content + self.byte * at.bytes

    def split_cost(self, at: ScanVolume) -> Numbers:
        return self.start, self.change * at.effort, self.content * at.content, self.byte * at.bytes


@dataclass(frozen=True, slots=True)
class OutputRatio:
    """What is made on one channel of what is read, as sums that forget."""

    read: DataSize = EMPTY
    made: DataSize = EMPTY

    def estimate_output(self, read: DataSize) -> DataSize:
        return DataSize(
            read.rows * _compute_ratio(self.made.rows, self.read.rows),
            read.bytes * _compute_ratio(self.made.bytes, self.read.bytes),
        )

    def add_run(self, read: DataSize, made: DataSize) -> OutputRatio:
        return OutputRatio(_decay_size(self.read) + read, _decay_size(self.made) + made)


@dataclass(frozen=True, slots=True)
class MergeCost:
    """What merging cost the runs of a variant, as sums that forget.

    Where guesses hardly differ, runs cannot say anything, and the guess stands: times vary for many reasons.
    """

    runs: float = 0.0
    guessed: float = 0.0
    over: float = 0.0  # seconds that runs took longer than was expected of them
    squares: float = 0.0  # of the guesses
    products: float = 0.0  # of both

    @property
    def cost_factor(self) -> float:
        """How many times the guess merging costs."""
        if not self.runs:
            return 1.0
        varied = max(0.0, self.squares - self.guessed**2 / self.runs)
        along = self.products - self.guessed * self.over / self.runs
        return min(10.0, max(0.0, (SURE + along) / (SURE + varied)))

    def add_run(self, guess: float, over: float) -> MergeCost:
        sums = (self.runs, self.guessed, self.over, self.squares, self.products)
        more = (1.0, guess, over, guess * guess, guess * over)
        return MergeCost(*(KEPT * s + m for s, m in zip(sums, more, strict=True)))

    def to_json(self) -> list[float]:
        return [self.runs, self.guessed, self.over, self.squares, self.products]


@dataclass(frozen=True, slots=True)
class CostModel:
    """What is known of a variant. `moments` and `cross` are the normal equations of the fit, in units of the guess."""

    guess: CostTerms  # none of them zero
    terms: CostTerms  # the fit
    yields: tuple[OutputRatio, ...]  # for each channel that it writes
    moments: tuple[Numbers, ...] = ((0.0,) * 4,) * 4
    cross: Numbers = (0.0,) * 4
    weight: float = 1.0  # of the guess, above its least
    runs: int = 0
    usual: float = 0.0  # what a run cost lately
    merged: MergeCost = MergeCost()

    def add_run(self, at: ScanVolume, cost: float, made: Sequence[DataSize], merging: float | None = None) -> CostModel:
        """What is known after another run; `merging`: the seconds guessed for that, of one that read contents."""
        scale = self.guess.compute_cost(at)  # a yardstick that does not move, so that errors of all runs compare
        parts = [part / scale for part in self.guess.split_cost(at)]
        kept = KEPT if self.runs >= ENOUGH else DOUBTED
        moments = tuple(
            tuple(kept * m + a * b for m, b in zip(row, parts, strict=True))
            for row, a in zip(self.moments, parts, strict=True)
        )
        cross = tuple(kept * c + a * cost / scale for c, a in zip(self.cross, parts, strict=True))
        weight = DOUBTED * self.weight
        return replace(
            self,
            terms=_fit_terms(self.guess, moments, cross, weight + GUESS),
            yields=tuple(y.add_run(at.size, m) for y, m in zip(self.yields, made, strict=True)),
            moments=moments,
            cross=cross,
            weight=weight,
            runs=self.runs + 1,
            usual=KEPT * self.usual + (1 - KEPT) * cost if self.runs else cost,
            merged=self.merged if merging is None else self.merged.add_run(merging, cost - self.terms.compute_cost(at)),
        )

    def estimate_run(self, at: ScanVolume) -> CostEstimate:
        return CostEstimate(self.terms.compute_cost(at), tuple(y.estimate_output(at.size) for y in self.yields))

    def compute_error_factor(self, at: ScanVolume) -> float:
        """How many times the guess its runs cost."""
        return self.terms.compute_cost(at) / self.guess.compute_cost(at)

    def to_json(self) -> dict[str, Any]:
        return {
            "guess": _to_numbers(self.guess),
            "terms": _to_numbers(self.terms),
            "yields": [[y.read.rows, y.read.bytes, y.made.rows, y.made.bytes] for y in self.yields],
            "moments": [list(row) for row in self.moments],
            "cross": list(self.cross),
            "weight": self.weight,
            "runs": self.runs,
            "usual": self.usual,
            "merged": self.merged.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CostModel:
        yields = tuple(OutputRatio(DataSize(y[0], y[1]), DataSize(y[2], y[3])) for y in data["yields"])
        moments = tuple(tuple(row) for row in data["moments"])
        fit = (moments, tuple(data["cross"]), data["weight"], data["runs"], data["usual"])
        merged = MergeCost(*data.get("merged", ()))  # catalogs of older versions have none
        return cls(CostTerms(*data["guess"]), CostTerms(*data["terms"]), yields, *fit, merged)


def guess_cost_model(terms: CostTerms, *ratios: float) -> CostModel:
    """Before the first run: terms, and how much is made of what is read, for each channel written."""
    return CostModel(terms, terms, tuple(OutputRatio(DataSize(1.0, 1.0), DataSize(r, r)) for r in ratios))


def estimate_seconds(variant: str, known: Mapping[str, CostModel], at: ScanVolume) -> float:
    """What a variant of a task would cost. Of one that hardly ran, how far off the most similar was is believed."""
    own = known[variant]
    if own.runs >= ENOUGH:
        return own.terms.compute_cost(at)
    guess = own.guess.compute_cost(at)
    others = [learnt for name, learnt in known.items() if learnt.runs and name != variant]
    similar = sorted(others, key=lambda learnt: abs(log(learnt.guess.compute_cost(at) / guess)))[:1]
    ratios = [learnt.compute_error_factor(at) for learnt in (*similar, own) if learnt.runs]
    return guess * min(10.0, max(0.1, mean(ratios) if ratios else 1.0))


def _fit_terms(guess: CostTerms, moments: Sequence[Numbers], cross: Numbers, ridge: float) -> CostTerms:
    matrix = [[m + ridge * (i == j) for j, m in enumerate(row)] for i, row in enumerate(moments)]
    start, change, content, byte = _solve_nonnegative(matrix, [c + ridge for c in cross])
    least = 1e-9 * guess.start  # something is paid even where all runs were free
    rows = (change * guess.change, content * guess.content)
    return CostTerms(max(least, start * guess.start), *rows, byte * guess.byte)


def _solve_nonnegative(matrix: list[list[float]], cross: list[float]) -> Numbers:
    """The least squares none of which is negative: of four, all ways to leave some out can be tried."""
    size = len(cross)
    best: Numbers = (0.0,) * size
    least = 0.0
    for count in range(1, size + 1):
        for chosen in combinations(range(size), count):
            solved = _solve_linear([[matrix[i][j] for j in chosen] for i in chosen], [cross[i] for i in chosen])
            if solved is None or min(solved) < 0:
                continue
            error = -sum(s * cross[i] for s, i in zip(solved, chosen, strict=True))  # but for what all have in common
            if error < least:
                found = dict(zip(chosen, solved, strict=True))
                best, least = tuple(found.get(i, 0.0) for i in range(size)), error
    return best


def _solve_linear(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """Gaussian elimination of a symmetric, positive system; None if it is not quite."""
    size = len(right)
    rows = [[*row, r] for row, r in zip(matrix, right, strict=True)]
    for i in range(size):
        if rows[i][i] <= 0:
            return None
        for k in range(i + 1, size):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    found = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][j] * found[j] for j in range(i + 1, size))
        found[i] = (rows[i][size] - known) / rows[i][i]
    return found


def _to_numbers(terms: CostTerms) -> list[float]:
    return [terms.start, terms.change, terms.content, terms.byte]


def _decay_size(size: DataSize) -> DataSize:
    return DataSize(KEPT * size.rows, KEPT * size.bytes)


def _compute_ratio(made: float, read: float) -> float:
    return made / read if read > 0 else 0.0
