"""Costs are learnt from runs."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.planner.cost import CostModel, CostTerms, ScanVolume, estimate_seconds, guess_cost_model, measure_reads
from tidemill.planner.graph import BlockNode, BlockShape, DataSize

GUESS = CostTerms(start=1.0, change=1e-5, content=1e-6, byte=1e-8)
TRUE = CostTerms(start=3.0, change=4e-5, content=5e-6, byte=2e-8)


def looks(random: Random) -> ScanVolume:
    """Rows of ten to a thousand bytes, a thousand to a million of them, of which some changed."""
    rows = 10 ** random.uniform(3, 6)
    return ScanVolume(rows * 10 ** random.uniform(-3, 0), rows, rows * 10 ** random.uniform(1, 3))


def scaled(terms: CostTerms, times: float) -> CostTerms:
    return CostTerms(terms.start * times, terms.change * times, terms.content * times, terms.byte * times)


def after(
    runs: int, terms: CostTerms, *, noise: float = 0.0, known: CostModel | None = None, seed: int = 1
) -> CostModel:
    random = Random(seed)
    known = known or guess_cost_model(GUESS, 1.0)
    for _ in range(runs):
        read = looks(random)
        cost = terms.compute_cost(read) * max(0.1, random.gauss(1.0, noise))
        known = known.add_run(read, cost, [DataSize(read.change / 2, read.bytes / 4)])
    return known


def test_before_the_first_run_there_is_the_guess() -> None:
    estimate = guess_cost_model(GUESS, 0.5, 0.1).estimate_run(ScanVolume(0, 1e6, 1e8))
    assert estimate.cost == pytest.approx(3.0)
    assert estimate.sizes == (DataSize(5e5, 5e7), DataSize(1e5, 1e7))


def test_terms_are_recovered_from_exact_runs() -> None:
    found, wanted = after(100, TRUE).terms, TRUE
    assert (found.start, found.content, found.byte) == pytest.approx(
        (wanted.start, wanted.content, wanted.byte), rel=0.05
    )
    assert found.change == pytest.approx(wanted.change, rel=0.05)


@given(seed=st.integers(0, 1000))
def test_costs_are_recovered_from_noisy_runs(seed: int) -> None:
    """Ten runs count, so a noise of a tenth leaves some hundredths; a single large run may be off by more."""
    known, random = after(60, TRUE, noise=0.1, seed=seed), Random(seed)
    ratios = [known.terms.compute_cost(s) / TRUE.compute_cost(s) for s in (looks(random) for _ in range(20))]
    assert sum(ratios) / 20 == pytest.approx(1.0, abs=0.2)


def test_what_is_long_ago_is_forgotten() -> None:
    moved = scaled(TRUE, 10.0)
    known = after(60, moved, known=after(60, TRUE), seed=2)
    read = ScanVolume(1e3, 1e5, 1e7)
    assert known.terms.compute_cost(read) == pytest.approx(moved.compute_cost(read), rel=0.05)
    assert after(3, moved, known=after(60, TRUE), seed=2).terms.compute_cost(read) < 0.9 * moved.compute_cost(read)


def test_cold_first_runs_of_a_small_table_do_not_say_that_rows_cost_nothing() -> None:
    known = guess_cost_model(GUESS, 1.0)
    for number, cold in enumerate((2.5, 1.5, 1.0, 1.0, 1.0, 1.0, 1.0)):
        read = ScanVolume(0, (5 + number) * 1e5, 0)
        known = known.add_run(read, cold * TRUE.compute_cost(read), [read.size])
    read = ScanVolume(0, 4e6, 0)
    assert known.terms.compute_cost(read) == pytest.approx(TRUE.compute_cost(read), rel=0.25)


magnitudes = st.floats(0, 1e9)
anything = st.builds(ScanVolume, magnitudes, magnitudes, magnitudes)


@given(runs=st.lists(st.tuples(anything, st.floats(0, 1e6)), max_size=12), read=anything)
def test_no_estimate_is_below_zero(runs: list[tuple[ScanVolume, float]], read: ScanVolume) -> None:
    known = guess_cost_model(GUESS, 1.0)
    for at, cost in runs:
        known = known.add_run(at, cost, [at.size])
    assert min(known.terms.split_cost(ScanVolume(1, 1, 1))) >= 0
    assert known.terms.compute_cost(read) > 0


def test_where_rows_and_bytes_go_together_their_sum_is_learnt() -> None:
    known = guess_cost_model(GUESS, 1.0)
    for rows in (1e3, 1e4, 1e5, 1e6) * 10:
        read = ScanVolume(rows, 0, 100 * rows)
        known = known.add_run(read, TRUE.compute_cost(read), [read.size])
    read = ScanVolume(5e5, 0, 5e7)
    assert known.terms.compute_cost(read) == pytest.approx(TRUE.compute_cost(read), rel=0.02)


def test_what_is_made_of_what_is_read_is_learnt() -> None:
    (made,) = after(30, TRUE).estimate_run(ScanVolume(1000, 0, 8000)).sizes
    assert (made.rows, made.bytes) == pytest.approx((500, 2000), rel=0.01)


def test_what_was_learnt_can_be_kept_as_json() -> None:
    known = after(7, TRUE, noise=0.2)
    assert CostModel.from_json(json.loads(json.dumps(known.to_json()))) == known


def merging(factor: float, largest: float, runs: int = 40, noise: float = 0.3) -> float:
    """What is learnt from readers that pay `factor` times what merging was guessed at, from nothing up to `largest`."""
    random, known, read = Random(1), guess_cost_model(GUESS, 1.0), ScanVolume(0, 1e6, 1e8)
    for run in range(runs):
        guess = largest * (run % 8) / 7
        known = known.add_run(
            read, GUESS.compute_cost(read) + factor * guess + random.gauss(0, noise), [read.size], guess
        )
    return known.merge_cost.cost_factor


@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
def test_what_merging_costs_is_learnt_where_it_is_much(factor: float) -> None:
    assert merging(factor, largest=5.0) == pytest.approx(factor, rel=0.25)


@pytest.mark.parametrize("factor", [0.0, 1.0, 5.0])
def test_where_merging_is_little_the_guess_stands(factor: float) -> None:
    assert merging(factor, largest=0.05) == pytest.approx(1.0, abs=0.3)


def test_runs_that_read_no_content_say_nothing_about_merging() -> None:
    assert after(30, TRUE, noise=0.2).merge_cost.cost_factor == 1.0


def test_what_older_versions_learnt_is_still_known() -> None:
    known = after(7, TRUE)
    older = {name: value for name, value in known.to_json().items() if name != "merged"}
    assert CostModel.from_json(older) == known


def test_what_is_read_as_it_is_and_what_changed_are_told_apart() -> None:
    base = BlockNode("a", BlockShape.BASE, None, ((1,),), DataSize(1e6, 10))
    delta = BlockNode("a", BlockShape.STRONG, ((1,),), ((2,),), DataSize(1e3, 5))
    assert measure_reads([base, delta]) == ScanVolume(1e3, 1e6, 15)


def test_a_variant_that_hardly_ran_is_as_far_off_as_the_others_were() -> None:
    read = ScanVolume(0, 1e6, 1e8)
    known = {"batch": after(60, scaled(GUESS, 3.0)), "incremental": guess_cost_model(GUESS, 1.0)}
    assert estimate_seconds("incremental", known, read) == pytest.approx(3 * GUESS.compute_cost(read), rel=0.05)
    assert estimate_seconds("incremental", {"incremental": guess_cost_model(GUESS, 1.0)}, read) == GUESS.compute_cost(
        read
    )


def test_a_variant_that_never_ran_is_priced_by_the_one_that_is_most_like_it() -> None:
    """Quick refreshes say nothing of how long recomputing takes."""
    read = ScanVolume(0, 1e6, 1e8)
    light, nearly = scaled(GUESS, 0.05), scaled(GUESS, 0.8)
    known = {
        "incremental": after(60, scaled(light, 0.1), known=guess_cost_model(light, 1.0)),
        "batch": after(60, scaled(GUESS, 2.0)),
        "recompute": guess_cost_model(nearly, 1.0),
    }
    assert estimate_seconds("recompute", known, read) == pytest.approx(2 * nearly.compute_cost(read), rel=0.05)
