"""`ui.standing`, `ui.graph` and `ui.card`: what the graph says, on catalogs that were driven through whole runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.catalog.driver import COPY, SCHEMA, WORKFLOW, Driver, task

from tidemill.model.block import BlockKind
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.run import RunKind
from tidemill.model.task import ReadMode
from tidemill.model.trigger import IntervalTrigger
from tidemill.ui.card import NodeCard, build_cards, find_waiting_edges
from tidemill.ui.graph import build_graph
from tidemill.ui.health import GRACE_SECONDS, HealthState, HealthVerdict, judge_health
from tidemill.ui.snapshot import take_snapshot

LATER = BoundFlow(
    "later",
    (task("shaping", {"d": ReadMode.NEW, "kept": ReadMode.ALL}, {"e": BlockKind.DELTA, "kept": BlockKind.DELTA}),),
)
LONGER = replace(
    WORKFLOW,
    channels=(
        *WORKFLOW.channels,
        Channel("e", ChannelRole.DERIVED, SCHEMA),
        Channel("kept", ChannelRole.DERIVED, SCHEMA),
    ),
    bindings=(COPY, LATER),
)


def flow(driver: Driver, name: str = "copy") -> HealthVerdict:
    return judge_health(take_snapshot(driver.catalog), driver.clock.now).flows[name]


def channel(driver: Driver, name: str) -> HealthState:
    return judge_health(take_snapshot(driver.catalog), driver.clock.now).channels[name].state


def card(driver: Driver, key: str) -> NodeCard:
    snapshot = take_snapshot(driver.catalog)
    drawn = build_graph(snapshot.status)
    now = driver.clock.now
    return build_cards(snapshot, snapshot.status, drawn, judge_health(snapshot, now), now)[key]


def fail(driver: Driver) -> None:
    claim = driver.open_flow()
    driver.catalog.fail_run(claim.run.id, claim.run.fencing_token, error="no such city\nand more")


def test_before_anything_came_all_is_empty(driver: Driver) -> None:
    assert flow(driver) == HealthVerdict(HealthState.EMPTY, "never run")
    assert {channel(driver, name) for name in "abd"} == {HealthState.EMPTY}


def test_unread_blocks_wait(driver: Driver) -> None:
    driver.insert("a")
    driver.insert("a")
    assert flow(driver) == HealthVerdict(HealthState.WAITING, "2 blocks on a")
    assert [channel(driver, name) for name in "abd"] == [HealthState.WAITING, HealthState.EMPTY, HealthState.WAITING]


def test_a_run_makes_it_fresh(driver: Driver) -> None:
    driver.insert("a")
    driver.run_flow()
    assert flow(driver) == HealthVerdict(HealthState.FRESH, "nothing is pending")
    assert [channel(driver, name) for name in "ad"] == [HealthState.FRESH, HealthState.FRESH]


def test_a_run_under_way_is_told_before_all_else(driver: Driver) -> None:
    driver.insert("a")
    fail(driver)
    claim = driver.open_flow()
    assert flow(driver) == HealthVerdict(HealthState.RUNNING, f"run {claim.run.id}")


def test_a_failed_run_is_told_with_its_reason_until_another_finishes(driver: Driver) -> None:
    fail(driver)
    assert flow(driver) == HealthVerdict(HealthState.FAILED, "no such city")
    driver.run_flow()
    assert flow(driver).state is HealthState.FRESH


def test_an_insert_under_way(driver: Driver) -> None:
    driver.open_insert("a")
    assert channel(driver, "a") is HealthState.RUNNING


def test_a_paused_workflow_is_paused_whatever_waits(driver: Driver) -> None:
    driver.insert("a")
    driver.catalog.set_workflow_paused("w", paused=True)
    assert flow(driver) == HealthVerdict(HealthState.PAUSED, "workflow w is paused")


@pytest.mark.parametrize(
    ("late", "standing"), [(GRACE_SECONDS - 1, HealthState.EMPTY), (GRACE_SECONDS + 1, HealthState.LATE)]
)
def test_a_trigger_that_nobody_handles_is_late(driver: Driver, late: float, standing: HealthState) -> None:
    driver.catalog.apply_workflow(replace(WORKFLOW, bindings=(replace(COPY, triggers=(IntervalTrigger(60.0),)),)))
    driver.clock.now += 60 + late
    assert flow(driver).state is standing


def test_a_run_that_finds_no_track_is_late(driver: Driver) -> None:
    driver.request(RunKind.FLOW, "copy")
    assert flow(driver) == HealthVerdict(HealthState.WAITING, "run 1 waits for a track")
    driver.clock.now += GRACE_SECONDS + 1
    assert flow(driver).state is HealthState.LATE


def test_what_is_made_from_something_failed_waits_for_it(driver: Driver) -> None:
    driver.catalog.apply_workflow(LONGER)
    driver.insert("a")
    driver.run_flow()
    driver.run_flow(LATER)
    assert flow(driver, "later").state is HealthState.FRESH
    fail(driver)
    assert flow(driver, "later") == HealthVerdict(HealthState.WAITING, "d is failed")
    assert channel(driver, "e") is HealthState.WAITING


def test_a_tasks_own_state_never_waits_for_it(driver: Driver) -> None:
    driver.catalog.apply_workflow(LONGER)
    driver.run_flow(LATER)
    assert take_snapshot(driver.catalog).count_unread("later") == {}


def test_a_task_that_writes_one_channel_is_drawn_with_it(driver: Driver) -> None:
    drawn = build_graph(take_snapshot(driver.catalog).status)
    assert [(n.channel, n.flow, n.task) for n in drawn.nodes] == [
        ("a", None, None),
        ("b", None, None),
        ("d", "copy", "copying"),
    ]
    assert drawn.edges == (("channel a", "channel d"), ("channel b", "channel d"))


def test_a_task_that_writes_several_stands_for_itself_and_its_state_is_only_written(driver: Driver) -> None:
    driver.catalog.apply_workflow(LONGER)
    drawn = build_graph(take_snapshot(driver.catalog).status)
    own = [e for e in drawn.edges if "task later/shaping" in e]
    assert own == [
        ("channel d", "task later/shaping"),
        ("task later/shaping", "channel e"),
        ("task later/shaping", "channel kept"),
    ]


def test_blocks_wait_along_edges(driver: Driver) -> None:
    driver.insert("a")
    snapshot = take_snapshot(driver.catalog)
    assert find_waiting_edges(snapshot, build_graph(snapshot.status)) == {("channel a", "channel d")}


def test_a_card_says_rows_age_last_run_and_what_waits(driver: Driver) -> None:
    driver.insert("a")
    driver.run_flow()
    driver.insert("b")
    driver.clock.now += 200
    table = card(driver, "channel d")
    assert (table.name, table.href, table.eyebrow_href) == ("d", "/channels/d", "/flows/copy")
    assert table.facts[1] == "run 2 finished in 0.0 s"
    assert table.verdict == HealthVerdict(HealthState.WAITING, "1 block on b")
    assert table.sources == "a, b"
    fed = card(driver, "channel a")
    assert fed.facts == ("2 rows · 3 min ago", "2 blocks, read by 1 task")
