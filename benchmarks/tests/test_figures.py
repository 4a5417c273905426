"""The rules for the paper's figures: each on curves that support a claim, and on curves that do not.

Measuring all figures as declared takes minutes: TIDEMILL_FIGURES=1 pytest benchmarks/tests/test_figures.py
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest
from benchmarks.figures import FIGURES
from benchmarks.figures.experiment import Curves, Result, Sample, average_curves, measure_experiment
from benchmarks.figures.judging import compare, find_crossing, is_alike, is_better, is_nowhere_later

Added = Mapping[str, float]
"""Lateness that a curve adds at full load; it grows with the load."""


def judge(figure: int, *curves: Curves) -> list[bool]:
    """Whether each claim of a figure holds for these curves of its seeds."""
    claims = FIGURES[figure].declaration.claims
    return [claim.holds(average_curves(curves)) for claim in claims]


def create_curves(figure: int, added: Added, power: float = 4.0) -> dict[str, dict[float, float]]:
    return {name: {x: 1 + at_full * x**power for x in FIGURES[figure].values} for name, at_full in added.items()}


def swap_curves(curves: Curves, one: str, other: str) -> dict[str, Mapping[float, float]]:
    return {**curves, one: curves[other], other: curves[one]}


# -- comparison of curves ---------------------------------------------------------------------------------------

LOW, HIGH = {0.5: 1.1, 0.9: 1.5}, {0.5: 1.2, 0.9: 2.0}


def test_no_comparison_holds_both_ways() -> None:
    assert is_better(LOW, HIGH)
    assert not is_better(HIGH, LOW)
    assert not is_better(LOW, LOW)
    assert is_alike(LOW, LOW)
    assert not is_alike(LOW, HIGH)
    assert is_nowhere_later(LOW, HIGH)
    assert not is_nowhere_later(HIGH, LOW)


def test_invisible_differences_at_one_load_are_ignored() -> None:
    assert [compare({1: 1.10}, {1: y}, 1) for y in (1.109, 1.2, 1.0)] == [0, -1, 1]
    assert compare({1: 11.0}, {1: 11.4}, 1) == 0  # less than 5 % of the added lateness


def test_a_crossing_is_in_one_direction_and_happens_once() -> None:
    other = dict.fromkeys((0.5, 0.6, 0.7, 0.8), 2.0)
    assert find_crossing({0.5: 1.5, 0.6: 2.0, 0.7: 2.5, 0.8: 3.0}, other) == 0.7
    assert find_crossing({0.5: 2.5, 0.6: 2.0, 0.7: 1.5, 0.8: 1.0}, other) is None
    assert find_crossing({0.5: 1.5, 0.6: 2.5, 0.7: 1.5, 0.8: 3.0}, other) is None
    assert find_crossing(other, other) is None


# -- each rule ---------------------------------------------------------------------------------------------------


def test_figure_4() -> None:
    slower = create_curves(4, {"S = 2": 0.1, "S = 3": 0.5, "S = 5": 0.7, "S = 9": 0.9})
    assert judge(4, slower) == [True, True]
    assert judge(4, swap_curves(slower, "S = 2", "S = 9")) == [False, False]
    assert judge(4, swap_curves(slower, "S = 3", "S = 9")) == [True, False]


def test_figure_5() -> None:
    loads = FIGURES[5].values
    benefit = {x: 1 + x for x in loads}
    crossed = {"Max Benefit": benefit, "prioritised EDF": {x: 1 + x * (0.8 if x < 0.8 else 1.3) for x in loads}}
    assert judge(5, crossed) == [True, True]
    assert judge(5, swap_curves(crossed, "Max Benefit", "prioritised EDF")) == [False, False]
    assert judge(5, {"Max Benefit": benefit, "prioritised EDF": {x: 1 + 1.3 * x for x in loads}}) == [False, True]
    assert judge(5, {"Max Benefit": benefit, "prioritised EDF": benefit}) == [False, False]


def test_figure_6() -> None:
    curves: Curves = {
        name: {x: 1.02 if x <= 0.95 else 1.5 for x in FIGURES[6].values}
        for name in ("Max Benefit", "random", "proportional")
    }
    curves = {**curves, "partitioned": {0.5: 1.05, 0.6: 1.06, 0.7: 1.07}}
    assert judge(6, curves) == [True, True, True]
    assert judge(6, {**curves, "partitioned": {0.5: 1.05, 0.6: 1.06, 0.7: 1.2}}) == [False, True, True]
    assert judge(6, {**curves, "partitioned": {0.5: 1.02, 0.6: 1.02, 0.7: 1.02}}) == [True, False, True]
    costly = {x: 1 + 1.5 * (y - 1) for x, y in curves["Max Benefit"].items()}
    assert judge(6, {**curves, "proportional": costly}) == [True, True, False]


def test_figure_7() -> None:
    curves = create_curves(7, {"Max Benefit": 0.3, "EDF": 1.0, "random": 0.9})
    assert judge(7, curves) == [True]
    assert judge(7, swap_curves(curves, "Max Benefit", "EDF")) == [False]
    assert judge(7, create_curves(7, {"Max Benefit": 0.8, "EDF": 0.9, "random": 0.9})) == [False]


def test_figure_8() -> None:
    as_claimed = create_curves(8, {"none": 1.0, "sum": 0.11, "max": 0.10, "max-plus": 0.105})
    assert judge(8, as_claimed) == [True, True, True, True]
    assert judge(8, swap_curves(as_claimed, "max", "sum")) == [True, True, False, False]
    assert judge(8, swap_curves(as_claimed, "none", "sum")) == [False, False, True, True]
    assert judge(8, as_claimed, swap_curves(as_claimed, "max", "max-plus")) == [True, True, False, True]
    same = create_curves(8, {"none": 1.0, "sum": 0.1, "max": 0.1, "max-plus": 0.1})
    assert judge(8, same) == [True, True, False, False]


def test_figure_9() -> None:
    loads = FIGURES[9].values
    single = {x: 1 + x for x in loads}
    partitioned = {x: 1 + x * (0.7 if x < 0.6 else 1.3) for x in loads if x <= 0.75}
    proportional = {x: 1 + 0.6 * x for x in loads}
    curves = {"Max Benefit": single, "partitioned": partitioned, "proportional": proportional}
    assert judge(9, curves) == [True, True, True, True]
    assert judge(9, swap_curves(curves, "Max Benefit", "proportional")) == [False, False, False, False]
    hardly = {x: 1 + x * (0.9 if x < 0.6 else 1.3) for x in loads if x <= 0.75}
    assert judge(9, {**curves, "partitioned": hardly}) == [True, True, False, True]
    better = {x: 1 + 0.5 * x for x in loads if x <= 0.75}
    assert judge(9, {**curves, "partitioned": better}) == [True, False, False, False]


def test_figure_10() -> None:
    curves = create_curves(10, {"basic": 1.0, "all tracks": 0.7, "all tracks, aggressive": 0.5})
    assert judge(10, curves) == [True, True, True]
    assert judge(10, swap_curves(curves, "basic", "all tracks")) == [False, True, True]
    assert judge(10, swap_curves(curves, "basic", "all tracks, aggressive")) == [False, False, False]
    assert judge(10, swap_curves(curves, "all tracks", "all tracks, aggressive")) == [True, False, False]


def test_figure_11() -> None:
    curves = create_curves(11, {"unlimited": 1.0, "limited": 0.9})
    assert judge(11, curves) == [True, True]
    assert judge(11, swap_curves(curves, "unlimited", "limited")) == [False, False]
    assert judge(11, create_curves(11, {"unlimited": 1.0, "limited": 1.0})) == [False, True]


# -- the declarations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", FIGURES)
def test_every_claim_has_a_rule_and_every_failing_one_a_finding(figure: int) -> None:
    experiment = FIGURES[figure]
    assert {"tables", "tracks", "slow times", "events", "measure"} <= experiment.declaration.parameters.keys()
    for claim in experiment.declaration.claims:
        assert claim.section.startswith("4.")
        assert claim.statement
        assert claim.rule
        assert set(claim.fails_in) <= experiment.setups.keys()
        assert bool(claim.finding) == bool(claim.fails_in)


@cache
def measure_roughly(figure: int) -> Result:
    return measure_experiment(FIGURES[figure], 300, (1,))


def test_results_for_programs() -> None:
    document = measure_roughly(6).to_json()
    assert (document["figure"], document["events"], document["seeds"]) == (6, 300, 1)
    assert {"setup", "series", "x", "lateness", "by_seed"} == document["points"][0].keys()
    assert not document["as_declared"]
    assert document["holds"] == all(claim["holds"] for claim in document["claims"])


def test_partitioned_tracks_have_no_points_where_the_jobs_do_not_fit() -> None:
    (sample,) = measure_roughly(6).samples.values()
    assert 0.85 in sample.mean["partitioned"]
    assert (
        0.9 not in sample.mean["partitioned"]
    )  # each job needs 0.15 of a track, five fit on one, and there are thirty


@pytest.mark.parametrize("figure", [7, 8])
def test_claims_that_need_few_events_are_as_declared(figure: int) -> None:
    """Priorities and inheritance matter far more than noise."""
    name, series = next(iter(FIGURES[figure].setups.items()))
    result = measure_experiment(replace(FIGURES[figure], values=(0.9,), setups={name: series}), 3000, (1,))
    assert result.judgement.verdicts[0].holds


@pytest.mark.skipif(not os.environ.get("TIDEMILL_FIGURES"), reason="takes minutes; set TIDEMILL_FIGURES to run it")
@pytest.mark.parametrize("figure", FIGURES)
def test_all_verdicts_are_as_declared(figure: int) -> None:
    assert measure_experiment(FIGURES[figure]).judgement.changes == []


def test_samples_average_seeds() -> None:
    sample = average_curves([{"a": {1.0: 2.0}}, {"a": {1.0: 4.0}}])
    assert sample == Sample({"a": {1.0: 3.0}}, ({"a": {1.0: 2.0}}, {"a": {1.0: 4.0}}))
