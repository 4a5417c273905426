"""Decisions of the planner over weeks, as described in the paper."""

from __future__ import annotations

from collections import Counter

import pytest
from benchmarks.workflows import CRAWL, FEEDBACK, SEARCH, WORKFLOWS
from benchmarks.workflows.modes import MODES, SYNC_INCR
from benchmarks.workflows.run import Outcome
from benchmarks.workflows.scenario import DAY, WEEK, Scenario
from benchmarks.workflows.tables import simulate_scenario

WEEKS = 3
HALF_HOURS = WEEKS * 7 * 48


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    return {s.name: simulate_scenario(s, "DP", WEEKS * WEEK) for s in WORKFLOWS}


def get_runs(outcomes: dict[str, Outcome], scenario: Scenario) -> Counter[tuple[str, str]]:
    return outcomes[scenario.name].runs_by_variant


def test_there_is_always_a_plan_without_fallbacks(outcomes: dict[str, Outcome]) -> None:
    for outcome in outcomes.values():
        assert (outcome.unplanned, outcome.fallbacks) == (0, 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scenario", WORKFLOWS, ids=lambda s: s.name)
def test_no_bound_on_inconsistency_is_exceeded(scenario: Scenario, mode: str) -> None:
    outcome = simulate_scenario(MODES[mode](scenario), "DP", WEEK // 2)
    assert outcome.inconsistent == 0
    assert outcome.lags


def test_pages_are_joined_on_arrival_scores_refreshed_daily_and_all_rows_joined_weekly(
    outcomes: dict[str, Outcome],
) -> None:
    steps = get_runs(outcomes, SEARCH)
    assert steps["join", "pages"] > 0.98 * HALF_HOURS
    assert WEEKS * 7 - 2 <= steps["log", "batch"] + steps["log", "new"] <= WEEKS * 7 + 2
    assert WEEKS - 1 <= steps["join", "batch"] <= WEEKS + 1
    assert steps["join", "both"] == 0


def test_synchronous_processing_always_joins_both_sides() -> None:
    steps = simulate_scenario(MODES[SYNC_INCR](SEARCH), "DP", WEEK // 2).runs_by_variant
    assert steps["join", "pages"] <= 1  # unless no clicks have come
    assert steps["join", "both"] + steps["join", "batch"] > 0.98 * 7 * 24


def test_news_are_processed_first_and_the_rest_daily(outcomes: dict[str, Outcome]) -> None:
    steps = get_runs(outcomes, FEEDBACK)
    assert steps["union", "news"] > 0.9 * HALF_HOURS
    assert WEEKS * 7 - 2 <= steps["union", "other"] + steps["union", "both"] <= WEEKS * 7 + 2


def test_inputs_of_a_plan_are_not_chained_during_its_commit() -> None:
    """News and the rest become due together each day. A chain across the version of the output could not be applied."""
    assert simulate_scenario(FEEDBACK, "DP", 4 * DAY).runs_by_variant["union", "batch"] == 0


def test_indegrees_are_counted_weekly_and_selections_run_at_their_intervals(outcomes: dict[str, Outcome]) -> None:
    """`top` runs every hour and a half: its input changes after half an hour, and its bound is an hour."""
    steps = get_runs(outcomes, CRAWL)
    counts = steps["count", "batch"] + steps["count", "new"]
    assert WEEKS - 1 <= counts <= WEEKS + 1
    assert WEEKS * 7 - 2 <= steps["periodic", "batch"] <= WEEKS * 7 + 2
    assert WEEKS * 7 * 5 <= steps["adaptive", "batch"] <= WEEKS * 7 * 6
    assert WEEKS * 7 * 16 - 2 <= steps["top", "batch"] <= WEEKS * 7 * 16 + 2
