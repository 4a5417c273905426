"""Costs are learnt from runs."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.plan.cost import Learnt, LearntCosts, Terms, guessed
from tidemill.plan.graph import Block, Shape, Size

GUESS = Terms(start=1.0, row=1e-6, byte=1e-8)
TRUE = Terms(start=3.0, row=5e-6, byte=2e-8)


def sizes(random: Random) -> Size:
    """Rows of ten to a thousand bytes, a thousand to a million of them."""
    rows = 10 ** random.uniform(3, 6)
    return Size(rows, rows * 10 ** random.uniform(1, 3))


def after(runs: int, terms: Terms, *, noise: float = 0.0, known: Learnt | None = None, seed: int = 1) -> Learnt:
    random = Random(seed)
    known = known or guessed(GUESS, 1.0)
    for _ in range(runs):
        read = sizes(random)
        cost = terms.cost(read) * max(0.1, random.gauss(1.0, noise))
        known = known.after(read, cost, [Size(read.rows / 2, read.bytes / 4)])
    return known


def test_before_the_first_run_there_is_the_guess() -> None:
    estimate = guessed(GUESS, 0.5, 0.1).estimate(Size(1e6, 1e8))
    assert estimate.cost == pytest.approx(3.0)
    assert estimate.sizes == (Size(5e5, 5e7), Size(1e5, 1e7))


def test_terms_are_recovered_from_exact_runs() -> None:
    terms = after(100, TRUE).terms
    assert (terms.start, terms.row, terms.byte) == pytest.approx((TRUE.start, TRUE.row, TRUE.byte), rel=0.02)


@given(seed=st.integers(0, 1000))
def test_costs_are_recovered_from_noisy_runs(seed: int) -> None:
    """Ten runs count, so a noise of a tenth leaves some hundredths; a single large run may be off by more."""
    known, random = after(60, TRUE, noise=0.1, seed=seed), Random(seed)
    ratios = [known.terms.cost(s) / TRUE.cost(s) for s in (sizes(random) for _ in range(20))]
    assert sum(ratios) / 20 == pytest.approx(1.0, abs=0.15)


def test_what_is_long_ago_is_forgotten() -> None:
    moved = Terms(TRUE.start * 10, TRUE.row * 10, TRUE.byte * 10)
    known = after(60, moved, known=after(60, TRUE), seed=2)
    read = Size(1e5, 1e7)
    assert known.terms.cost(read) == pytest.approx(moved.cost(read), rel=0.05)
    assert after(3, moved, known=after(60, TRUE), seed=2).terms.cost(read) < 0.9 * moved.cost(read)


magnitudes = st.floats(0, 1e9)
observed = st.tuples(magnitudes, magnitudes, st.floats(0, 1e6))


@given(runs=st.lists(observed, max_size=12), rows=magnitudes, bytes_=magnitudes)
def test_no_estimate_is_below_zero(runs: list[tuple[float, float, float]], rows: float, bytes_: float) -> None:
    known = guessed(GUESS, 1.0)
    for read_rows, read_bytes, cost in runs:
        known = known.after(Size(read_rows, read_bytes), cost, [Size(read_rows, read_bytes)])
    assert min(known.terms.start, known.terms.row, known.terms.byte) >= 0
    assert known.terms.cost(Size(rows, bytes_)) > 0


def test_where_rows_and_bytes_go_together_their_sum_is_learnt() -> None:
    known = guessed(GUESS, 1.0)
    for rows in (1e3, 1e4, 1e5, 1e6) * 10:
        read = Size(rows, 100 * rows)
        known = known.after(read, TRUE.cost(read), [read])
    assert known.terms.cost(Size(5e5, 5e7)) == pytest.approx(TRUE.cost(Size(5e5, 5e7)), rel=0.02)


def test_what_is_made_of_what_is_read_is_learnt() -> None:
    (made,) = after(30, TRUE).estimate(Size(1000, 8000)).sizes
    assert (made.rows, made.bytes) == pytest.approx((500, 2000), rel=0.01)


def test_what_was_learnt_can_be_kept_as_json() -> None:
    known = after(7, TRUE, noise=0.2)
    again = Learnt.from_json(json.loads(json.dumps(known.to_json())))
    assert again == known
    assert again.terms == known.terms


def test_the_planner_is_told_of_all_that_is_read() -> None:
    costs = LearntCosts({("t", "new"): guessed(GUESS, 1.0)})
    reads = [
        Block("a", Shape.BASE, None, ((1,),), Size(1e6, 0)),
        Block("a", Shape.STRONG, ((1,),), ((2,),), Size(1e6, 0)),
    ]
    assert costs("t", "new", reads).cost == pytest.approx(3.0)
    dearer = costs.after("t", "new", Size(1e6, 1e8), 100.0, [Size(1, 1)])
    assert dearer("t", "new", reads).cost > 3.0
