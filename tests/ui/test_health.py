"""`ui.health`, `ui.graph` and `ui.card`: the contents of the graph, on catalogs with complete runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.catalog.driver import COPY, SCHEMA, WORKFLOW, Driver, task

from tidemill.display.columns import GRACE_SECONDS
from tidemill.model.block import BlockKind
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.run import RunKind
from tidemill.model.task import ReadMode
from tidemill.model.trigger import IntervalTrigger
from tidemill.ui.graph import NodeCard, build_cards, build_graph, find_waiting_edges
from tidemill.ui.health import HealthState, HealthVerdict, judge_health
from tidemill.ui.snapshot import take_snapshot

LATER = BoundFlow(
    "later",
    (task("shaping", {"d": ReadMode.NEW, "kept": ReadMode.ALL}, {"e": BlockKind.DELTA, "kept": BlockKind.DELTA}),),
)
EXTENDED = replace(
    WORKFLOW,
    channels=(
        *WORKFLOW.channels,
        Channel("e", ChannelRole.DERIVED, SCHEMA),
        Channel("kept", ChannelRole.DERIVED, SCHEMA),
    ),
    bindings=(COPY, LATER),
)


def judge_flow(driver: Driver, name: str = "copy") -> HealthVerdict:
    return judge_health(take_snapshot(driver.catalog), driver.clock.now).flows[name]


def judge_channel(driver: Driver, name: str) -> HealthState:
    return judge_health(take_snapshot(driver.catalog), driver.clock.now).channels[name].state


def build_card(driver: Driver, key: str) -> NodeCard:
    snapshot = take_snapshot(driver.catalog)
    graph = build_graph(snapshot.status)
    now = driver.clock.now
    return build_cards(snapshot, snapshot.status, graph, judge_health(snapshot, now), now)[key]


def fail(driver: Driver) -> None:
    claim = driver.open_flow()
    driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="no such city\nand more")


def test_everything_is_empty_before_the_first_insert(driver: Driver) -> None:
    assert judge_flow(driver) == HealthVerdict(HealthState.EMPTY, "never run")
    assert {judge_channel(driver, name) for name in "abd"} == {HealthState.EMPTY}


def test_unread_blocks_are_pending(driver: Driver) -> None:
    driver.insert("a")
    driver.insert("a")
    assert judge_flow(driver) == HealthVerdict(HealthState.WAITING, "2 blocks on a")
    assert [judge_channel(driver, name) for name in "abd"] == [
        HealthState.WAITING,
        HealthState.EMPTY,
        HealthState.WAITING,
    ]


def test_a_flow_is_fresh_after_its_run(driver: Driver) -> None:
    driver.insert("a")
    driver.run_flow()
    assert judge_flow(driver) == HealthVerdict(HealthState.FRESH, "nothing is pending")
    assert [judge_channel(driver, name) for name in "ad"] == [HealthState.FRESH, HealthState.FRESH]


def test_an_active_run_takes_precedence(driver: Driver) -> None:
    driver.insert("a")
    fail(driver)
    claim = driver.open_flow()
    assert judge_flow(driver) == HealthVerdict(HealthState.RUNNING, f"run {claim.run.id}")


def test_a_failed_run_is_shown_with_its_reason_until_another_finishes(driver: Driver) -> None:
    fail(driver)
    assert judge_flow(driver) == HealthVerdict(HealthState.FAILED, "no such city")
    driver.run_flow()
    assert judge_flow(driver).state is HealthState.FRESH


def test_a_channel_with_an_active_insert_is_running(driver: Driver) -> None:
    driver.open_insert("a")
    assert judge_channel(driver, "a") is HealthState.RUNNING


def test_a_paused_workflow_is_paused_even_with_pending_blocks(driver: Driver) -> None:
    driver.insert("a")
    driver.catalog.workflows.set_paused("w", paused=True)
    assert judge_flow(driver) == HealthVerdict(HealthState.PAUSED, "workflow w is paused")


@pytest.mark.parametrize(
    ("late", "state"), [(GRACE_SECONDS - 1, HealthState.EMPTY), (GRACE_SECONDS + 1, HealthState.LATE)]
)
def test_an_overdue_trigger_is_late(driver: Driver, late: float, state: HealthState) -> None:
    driver.catalog.workflows.apply(replace(WORKFLOW, bindings=(replace(COPY, triggers=(IntervalTrigger(60.0),)),)))
    driver.clock.now += 60 + late
    assert judge_flow(driver).state is state


def test_a_run_without_a_free_track_becomes_late(driver: Driver) -> None:
    driver.request(RunKind.FLOW, "copy")
    assert judge_flow(driver) == HealthVerdict(HealthState.WAITING, "run 1 waits for a track")
    driver.clock.now += GRACE_SECONDS + 1
    assert judge_flow(driver).state is HealthState.LATE


def test_tables_derived_from_a_failed_one_are_waiting(driver: Driver) -> None:
    driver.catalog.workflows.apply(EXTENDED)
    driver.insert("a")
    driver.run_flow()
    driver.run_flow(LATER)
    assert judge_flow(driver, "later").state is HealthState.FRESH
    fail(driver)
    assert judge_flow(driver, "later") == HealthVerdict(HealthState.WAITING, "d is failed")
    assert judge_channel(driver, "e") is HealthState.WAITING


def test_the_state_of_a_task_is_never_pending_for_it(driver: Driver) -> None:
    driver.catalog.workflows.apply(EXTENDED)
    driver.run_flow(LATER)
    assert take_snapshot(driver.catalog).unread_index["later"] == {}


def test_a_task_that_writes_one_channel_is_drawn_with_it(driver: Driver) -> None:
    graph = build_graph(take_snapshot(driver.catalog).status)
    assert [(n.channel, n.flow, n.task) for n in graph.nodes] == [
        ("a", None, None),
        ("b", None, None),
        ("d", "copy", "copying"),
    ]
    assert graph.edges == (("channel a", "channel d"), ("channel b", "channel d"))


def test_a_task_with_several_outputs_is_a_node_and_does_not_read_its_state(driver: Driver) -> None:
    driver.catalog.workflows.apply(EXTENDED)
    graph = build_graph(take_snapshot(driver.catalog).status)
    edges = [e for e in graph.edges if "task later/shaping" in e]
    assert edges == [
        ("channel d", "task later/shaping"),
        ("task later/shaping", "channel e"),
        ("task later/shaping", "channel kept"),
    ]


def test_edges_with_pending_blocks_are_found(driver: Driver) -> None:
    driver.insert("a")
    snapshot = take_snapshot(driver.catalog)
    assert find_waiting_edges(snapshot, build_graph(snapshot.status)) == {("channel a", "channel d")}


def test_a_card_shows_rows_age_last_run_and_pending_blocks(driver: Driver) -> None:
    driver.insert("a")
    driver.run_flow()
    driver.insert("b")
    driver.clock.now += 200
    table = build_card(driver, "channel d")
    assert (table.name, table.href, table.eyebrow_href) == ("d", "/channels/d", "/flows/copy")
    assert table.facts[1] == "run 2 finished in 0.0 s"
    assert table.verdict == HealthVerdict(HealthState.WAITING, "1 block on b")
    assert table.sources == "a, b"
    input_card = build_card(driver, "channel a")
    assert input_card.facts == ("2 rows · 3 min ago", "2 blocks, read by 1 task")
