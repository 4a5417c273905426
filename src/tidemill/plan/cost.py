"""What a variant costs, learnt from its own runs.

A run costs something to start, something for each row it reads and something for each byte. Before the first run there
is a guess. Then the three are fitted to the runs, the latest counting most, by least squares of errors relative to the
guess; none is ever negative. The guess keeps a little weight for ever: where rows and bytes always go together, runs
cannot say which of them costs, and the guess decides.

How much a variant makes of what it reads is a ratio of sums that forget at the same pace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from tidemill.plan.graph import EMPTY, Block, Size
from tidemill.plan.steps import Estimate

KEPT = 0.9
"""How much a run still counts after the next one."""

GUESS = 1e-4
"""How much the guess counts for ever, in runs. At first it counts as one."""

Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a variant costs: to start, and for each row and byte that it reads."""

    start: float
    row: float
    byte: float

    def cost(self, read: Size) -> float:
        return self.start + self.row * read.rows + self.byte * read.bytes


@dataclass(frozen=True, slots=True)
class Yield:
    """What is made on one channel of what is read, as sums that forget."""

    read: Size = EMPTY
    made: Size = EMPTY

    def of(self, read: Size) -> Size:
        return Size(
            read.rows * _ratio(self.made.rows, self.read.rows), read.bytes * _ratio(self.made.bytes, self.read.bytes)
        )

    def after(self, read: Size, made: Size) -> Yield:
        return Yield(_faded(self.read) + read, _faded(self.made) + made)


@dataclass(frozen=True, slots=True)
class Learnt:
    """What is known of a variant. `moments` and `cross` are the normal equations of the fit, in units of the guess."""

    guess: Terms  # none of them zero
    yields: tuple[Yield, ...]  # for each channel that it writes
    moments: tuple[Numbers, ...] = ((0.0, 0.0, 0.0),) * 3
    cross: Numbers = (0.0, 0.0, 0.0)
    weight: float = 1.0  # of the guess, above its least
    terms: Terms = field(init=False)  # the fit

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", self._fitted())

    def after(self, read: Size, cost: float, made: Sequence[Size]) -> Learnt:
        """What is known after another run."""
        scale = self.guess.cost(read)  # a yardstick that does not move, so that errors of all runs compare
        parts = (
            self.guess.start / scale,
            self.guess.row * read.rows / scale,
            self.guess.byte * read.bytes / scale,
        )
        moments = tuple(
            tuple(KEPT * m + a * b for m, b in zip(row, parts, strict=True))
            for row, a in zip(self.moments, parts, strict=True)
        )
        return replace(
            self,
            yields=tuple(y.after(read, m) for y, m in zip(self.yields, made, strict=True)),
            moments=moments,
            cross=tuple(KEPT * c + a * cost / scale for c, a in zip(self.cross, parts, strict=True)),
            weight=KEPT * self.weight,
        )

    def estimate(self, read: Size) -> Estimate:
        return Estimate(self.terms.cost(read), tuple(y.of(read) for y in self.yields))

    def _fitted(self) -> Terms:
        ridge = self.weight + GUESS
        matrix = [[m + ridge * (i == j) for j, m in enumerate(row)] for i, row in enumerate(self.moments)]
        start, row, byte = _not_negative(matrix, [c + ridge for c in self.cross])
        least = 1e-9 * self.guess.start  # something is paid even where all runs were free
        return Terms(max(least, start * self.guess.start), row * self.guess.row, byte * self.guess.byte)

    def to_json(self) -> dict[str, Any]:
        guess = (self.guess.start, self.guess.row, self.guess.byte)
        yields = [[y.read.rows, y.read.bytes, y.made.rows, y.made.bytes] for y in self.yields]
        moments = [list(row) for row in self.moments]
        return {
            "guess": list(guess), "yields": yields, "moments": moments, "cross": list(self.cross), "weight": self.weight
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Learnt:
        yields = tuple(Yield(Size(y[0], y[1]), Size(y[2], y[3])) for y in data["yields"])
        moments = tuple(tuple(row) for row in data["moments"])
        return cls(Terms(*data["guess"]), yields, moments, tuple(data["cross"]), data["weight"])


@dataclass(frozen=True, slots=True)
class LearntCosts:
    """The costs of all variants, as the planner asks for them."""

    known: Mapping[tuple[str, str], Learnt]  # by task and variant; a conversion's task is its channel

    def __call__(self, task: str, variant: str, reads: Sequence[Block], /) -> Estimate:
        return self.known[task, variant].estimate(sum((b.size for b in reads), EMPTY))

    def after(self, task: str, variant: str, read: Size, cost: float, made: Sequence[Size]) -> LearntCosts:
        key = task, variant
        return LearntCosts({**self.known, key: self.known[key].after(read, cost, made)})


def guessed(terms: Terms, *ratios: float) -> Learnt:
    """Before the first run: terms, and how much is made of what is read, for each channel written."""
    return Learnt(terms, tuple(Yield(Size(1.0, 1.0), Size(r, r)) for r in ratios))


def _not_negative(matrix: list[list[float]], cross: list[float]) -> Numbers:
    """The least squares none of which is negative: of three, all ways to leave some out can be tried."""
    best: Numbers = (0.0, 0.0, 0.0)
    least = 0.0
    for count in (1, 2, 3):
        for chosen in combinations(range(3), count):
            solved = _solved([[matrix[i][j] for j in chosen] for i in chosen], [cross[i] for i in chosen])
            if solved is None or min(solved) < 0:
                continue
            error = -sum(s * cross[i] for s, i in zip(solved, chosen, strict=True))  # but for what all have in common
            if error < least:
                found = dict(zip(chosen, solved, strict=True))
                best, least = tuple(found.get(i, 0.0) for i in range(3)), error
    return best


def _solved(matrix: list[list[float]], right: list[float]) -> list[float] | None:
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


def _faded(size: Size) -> Size:
    return Size(KEPT * size.rows, KEPT * size.bytes)


def _ratio(made: float, read: float) -> float:
    return made / read if read > 0 else 0.0
