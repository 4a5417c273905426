"""What the planner decides in the long run, as the paper tells it."""

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


def runs_by_variant(outcomes: dict[str, Outcome], scenario: Scenario) -> Counter[tuple[str, str]]:
    return outcomes[scenario.name].runs_by_variant


def test_there_is_always_a_plan_and_no_rule_ever_hides_it(outcomes: dict[str, Outcome]) -> None:
    for outcome in outcomes.values():
        assert (outcome.unplanned, outcome.fallbacks) == (0, 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scenario", WORKFLOWS, ids=lambda s: s.name)
def test_no_bound_on_inconsistency_is_ever_broken(scenario: Scenario, mode: str) -> None:
    outcome = simulate_scenario(MODES[mode](scenario), "DP", WEEK // 2)
    assert outcome.inconsistent == 0
    assert outcome.lags


def test_pages_are_joined_as_they_come_scores_are_refreshed_daily_and_all_is_joined_weekly(
    outcomes: dict[str, Outcome],
) -> None:
    steps = runs_by_variant(outcomes, SEARCH)
    assert steps["join", "pages"] > 0.98 * HALF_HOURS
    assert WEEKS * 7 - 2 <= steps["log", "batch"] + steps["log", "new"] <= WEEKS * 7 + 2
    assert WEEKS - 1 <= steps["join", "batch"] <= WEEKS + 1
    assert steps["join", "both"] == 0


def test_synchrony_joins_both_sides_every_time() -> None:
    steps = simulate_scenario(MODES[SYNC_INCR](SEARCH), "DP", WEEK // 2).runs_by_variant
    assert steps["join", "pages"] <= 1  # unless no clicks have come
    assert steps["join", "both"] + steps["join", "batch"] > 0.98 * 7 * 24


def test_news_go_ahead_and_the_rest_follows_daily(outcomes: dict[str, Outcome]) -> None:
    steps = runs_by_variant(outcomes, FEEDBACK)
    assert steps["union", "news"] > 0.9 * HALF_HOURS
    assert WEEKS * 7 - 2 <= steps["union", "other"] + steps["union", "both"] <= WEEKS * 7 + 2


def test_what_a_plan_reads_is_not_chained_while_it_is_being_committed() -> None:
    """News and the rest run out together each day. Chained across where the output stands, the rest would not fit."""
    assert simulate_scenario(FEEDBACK, "DP", 4 * DAY).runs_by_variant["union", "batch"] == 0


def test_indegrees_are_counted_weekly_and_selections_run_at_their_pace(outcomes: dict[str, Outcome]) -> None:
    """What is selected from is over after half an hour, and then an hour is granted: every hour and a half."""
    steps = runs_by_variant(outcomes, CRAWL)
    counts = steps["count", "batch"] + steps["count", "new"]
    assert WEEKS - 1 <= counts <= WEEKS + 1
    assert WEEKS * 7 - 2 <= steps["periodic", "batch"] <= WEEKS * 7 + 2
    assert WEEKS * 7 * 5 <= steps["adaptive", "batch"] <= WEEKS * 7 * 6
    assert WEEKS * 7 * 16 - 2 <= steps["top", "batch"] <= WEEKS * 7 * 16 + 2
