"""Cost models are fitted from past runs."""

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


def draw_volume(random: Random) -> ScanVolume:
    """Rows of ten to a thousand bytes, a thousand to a million of them, of which some changed."""
    rows = 10 ** random.uniform(3, 6)
    return ScanVolume(rows * 10 ** random.uniform(-3, 0), rows, rows * 10 ** random.uniform(1, 3))


def scale_terms(terms: CostTerms, times: float) -> CostTerms:
    return CostTerms(terms.start * times, terms.change * times, terms.content * times, terms.byte * times)


def fit_model(
    runs: int, terms: CostTerms, *, noise: float = 0.0, model: CostModel | None = None, seed: int = 1
) -> CostModel:
    random = Random(seed)
    model = model or guess_cost_model(GUESS, 1.0)
    for _ in range(runs):
        read = draw_volume(random)
        cost = terms.compute_cost(read) * max(0.1, random.gauss(1.0, noise))
        model = model.add_run(read, cost, [DataSize(read.change / 2, read.bytes / 4)])
    return model


def test_without_runs_the_estimate_is_the_prior() -> None:
    estimate = guess_cost_model(GUESS, 0.5, 0.1).estimate_run(ScanVolume(0, 1e6, 1e8))
    assert estimate.cost == pytest.approx(3.0)
    assert estimate.sizes == (DataSize(5e5, 5e7), DataSize(1e5, 1e7))


def test_terms_are_fitted_from_exact_runs() -> None:
    actual, expected = fit_model(100, TRUE).terms, TRUE
    assert (actual.start, actual.content, actual.byte) == pytest.approx(
        (expected.start, expected.content, expected.byte), rel=0.05
    )
    assert actual.change == pytest.approx(expected.change, rel=0.05)


@given(seed=st.integers(0, 1000))
def test_costs_are_fitted_from_noisy_runs(seed: int) -> None:
    """The last ten runs count, so 10 % noise leaves an error of a few percent; one large run may deviate more."""
    model, random = fit_model(60, TRUE, noise=0.1, seed=seed), Random(seed)
    ratios = [model.terms.compute_cost(s) / TRUE.compute_cost(s) for s in (draw_volume(random) for _ in range(20))]
    assert sum(ratios) / 20 == pytest.approx(1.0, abs=0.2)


def test_old_runs_lose_their_influence() -> None:
    changed = scale_terms(TRUE, 10.0)
    model = fit_model(60, changed, model=fit_model(60, TRUE), seed=2)
    read = ScanVolume(1e3, 1e5, 1e7)
    assert model.terms.compute_cost(read) == pytest.approx(changed.compute_cost(read), rel=0.05)
    assert fit_model(3, changed, model=fit_model(60, TRUE), seed=2).terms.compute_cost(
        read
    ) < 0.9 * changed.compute_cost(read)


def test_cold_first_runs_do_not_distort_the_cost_of_rows() -> None:
    model = guess_cost_model(GUESS, 1.0)
    for number, cold in enumerate((2.5, 1.5, 1.0, 1.0, 1.0, 1.0, 1.0)):
        read = ScanVolume(0, (5 + number) * 1e5, 0)
        model = model.add_run(read, cold * TRUE.compute_cost(read), [read.size])
    read = ScanVolume(0, 4e6, 0)
    assert model.terms.compute_cost(read) == pytest.approx(TRUE.compute_cost(read), rel=0.25)


magnitudes = st.floats(0, 1e9)
anything = st.builds(ScanVolume, magnitudes, magnitudes, magnitudes)


@given(runs=st.lists(st.tuples(anything, st.floats(0, 1e6)), max_size=12), read=anything)
def test_no_estimate_is_below_zero(runs: list[tuple[ScanVolume, float]], read: ScanVolume) -> None:
    model = guess_cost_model(GUESS, 1.0)
    for volume, cost in runs:
        model = model.add_run(volume, cost, [volume.size])
    assert min(model.terms.split_cost(ScanVolume(1, 1, 1))) >= 0
    assert model.terms.compute_cost(read) > 0


def test_correlated_rows_and_bytes_are_fitted_by_their_sum() -> None:
    model = guess_cost_model(GUESS, 1.0)
    for rows in (1e3, 1e4, 1e5, 1e6) * 10:
        read = ScanVolume(rows, 0, 100 * rows)
        model = model.add_run(read, TRUE.compute_cost(read), [read.size])
    read = ScanVolume(5e5, 0, 5e7)
    assert model.terms.compute_cost(read) == pytest.approx(TRUE.compute_cost(read), rel=0.02)


def test_output_sizes_are_fitted() -> None:
    (size,) = fit_model(30, TRUE).estimate_run(ScanVolume(1000, 0, 8000)).sizes
    assert (size.rows, size.bytes) == pytest.approx((500, 2000), rel=0.01)


def test_a_model_is_restored_from_json() -> None:
    model = fit_model(7, TRUE, noise=0.2)
    assert CostModel.from_json(json.loads(json.dumps(model.to_json()))) == model


def fit_merge_factor(factor: float, largest: float, runs: int = 40, noise: float = 0.3) -> float:
    """The factor fitted from readers that pay `factor` times the estimated merge cost, from zero to `largest`."""
    random, model, read = Random(1), guess_cost_model(GUESS, 1.0), ScanVolume(0, 1e6, 1e8)
    for run in range(runs):
        guess = largest * (run % 8) / 7
        model = model.add_run(
            read, GUESS.compute_cost(read) + factor * guess + random.gauss(0, noise), [read.size], guess
        )
    return model.merge_cost.cost_factor


@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
def test_a_large_merge_cost_is_fitted(factor: float) -> None:
    assert fit_merge_factor(factor, largest=5.0) == pytest.approx(factor, rel=0.25)


@pytest.mark.parametrize("factor", [0.0, 1.0, 5.0])
def test_a_small_merge_cost_keeps_the_prior(factor: float) -> None:
    assert fit_merge_factor(factor, largest=0.05) == pytest.approx(1.0, abs=0.3)


def test_runs_without_content_do_not_change_the_merge_cost() -> None:
    assert fit_model(30, TRUE, noise=0.2).merge_cost.cost_factor == 1.0


def test_a_model_of_an_older_version_is_restored() -> None:
    model = fit_model(7, TRUE)
    older = {name: value for name, value in model.to_json().items() if name != "merged"}
    assert CostModel.from_json(older) == model


def test_content_and_changes_are_measured_separately() -> None:
    base = BlockNode("a", BlockShape.BASE, None, ((1,),), DataSize(1e6, 10))
    delta = BlockNode("a", BlockShape.STRONG, ((1,),), ((2,),), DataSize(1e3, 5))
    assert measure_reads([base, delta]) == ScanVolume(1e3, 1e6, 15)


def test_a_variant_with_few_runs_is_corrected_by_the_others() -> None:
    read = ScanVolume(0, 1e6, 1e8)
    model = {"batch": fit_model(60, scale_terms(GUESS, 3.0)), "incremental": guess_cost_model(GUESS, 1.0)}
    assert estimate_seconds("incremental", model, read) == pytest.approx(3 * GUESS.compute_cost(read), rel=0.05)
    assert estimate_seconds("incremental", {"incremental": guess_cost_model(GUESS, 1.0)}, read) == GUESS.compute_cost(
        read
    )


def test_a_variant_without_runs_is_estimated_by_the_most_similar_one() -> None:
    """Fast incremental refreshes do not predict the time of a recomputation."""
    read = ScanVolume(0, 1e6, 1e8)
    light, similar = scale_terms(GUESS, 0.05), scale_terms(GUESS, 0.8)
    model = {
        "incremental": fit_model(60, scale_terms(light, 0.1), model=guess_cost_model(light, 1.0)),
        "batch": fit_model(60, scale_terms(GUESS, 2.0)),
        "recompute": guess_cost_model(similar, 1.0),
    }
    assert estimate_seconds("recompute", model, read) == pytest.approx(2 * similar.compute_cost(read), rel=0.05)
