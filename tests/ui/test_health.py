"""`ui.standing`, `ui.graph` and `ui.card`: what the graph says, on catalogs that were driven through whole runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.catalog.driver import COPY, SCHEMA, WORKFLOW, Driver, task

from tidemill.model.block import Kind
from tidemill.model.channel import Channel, Role
from tidemill.model.flow import Binding
from tidemill.model.run import RunKind
from tidemill.model.task import Mode
from tidemill.model.trigger import Every
from tidemill.ui.card import Card, cards, waiting_edges
from tidemill.ui.graph import graph
from tidemill.ui.health import GRACE, Judgement, Standing, judged
from tidemill.ui.snapshot import take

LATER = Binding("later", (task("shaping", {"d": Mode.NEW, "kept": Mode.ALL}, {"e": Kind.DELTA, "kept": Kind.DELTA}),))
LONGER = replace(
    WORKFLOW,
    channels=(*WORKFLOW.channels, Channel("e", Role.DERIVED, SCHEMA), Channel("kept", Role.DERIVED, SCHEMA)),
    bindings=(COPY, LATER),
)


def flow(driver: Driver, name: str = "copy") -> Judgement:
    return judged(take(driver.catalog), driver.clock.now).flows[name]


def channel(driver: Driver, name: str) -> Standing:
    return judged(take(driver.catalog), driver.clock.now).channels[name].standing


def card(driver: Driver, key: str) -> Card:
    snapshot = take(driver.catalog)
    drawn = graph(snapshot.status)
    now = driver.clock.now
    return cards(snapshot, snapshot.status, drawn, judged(snapshot, now), now)[key]


def fail(driver: Driver) -> None:
    claim = driver.open_flow()
    driver.catalog.fail(claim.run.id, claim.run.fence, error="no such city\nand more")


def test_before_anything_came_all_is_empty(driver: Driver) -> None:
    assert flow(driver) == Judgement(Standing.EMPTY, "never run")
    assert {channel(driver, name) for name in "abd"} == {Standing.EMPTY}


def test_unread_blocks_wait(driver: Driver) -> None:
    driver.insert("a")
    driver.insert("a")
    assert flow(driver) == Judgement(Standing.WAITING, "2 blocks on a")
    assert [channel(driver, name) for name in "abd"] == [Standing.WAITING, Standing.EMPTY, Standing.WAITING]


def test_a_run_makes_it_fresh(driver: Driver) -> None:
    driver.insert("a")
    driver.run_flow()
    assert flow(driver) == Judgement(Standing.FRESH, "nothing waits")
    assert [channel(driver, name) for name in "ad"] == [Standing.FRESH, Standing.FRESH]


def test_a_run_under_way_is_told_before_all_else(driver: Driver) -> None:
    driver.insert("a")
    fail(driver)
    claim = driver.open_flow()
    assert flow(driver) == Judgement(Standing.RUNNING, f"run {claim.run.id}")


def test_a_failed_run_is_told_with_its_reason_until_another_finishes(driver: Driver) -> None:
    fail(driver)
    assert flow(driver) == Judgement(Standing.FAILED, "no such city")
    driver.run_flow()
    assert flow(driver).standing is Standing.FRESH


def test_an_insert_under_way(driver: Driver) -> None:
    driver.open_insert("a")
    assert channel(driver, "a") is Standing.RUNNING


def test_a_paused_workflow_is_paused_whatever_waits(driver: Driver) -> None:
    driver.insert("a")
    driver.catalog.pause("w", paused=True)
    assert flow(driver) == Judgement(Standing.PAUSED, "workflow w is paused")


@pytest.mark.parametrize(("late", "standing"), [(GRACE - 1, Standing.EMPTY), (GRACE + 1, Standing.LATE)])
def test_a_trigger_that_nobody_handles_is_late(driver: Driver, late: float, standing: Standing) -> None:
    driver.catalog.apply(replace(WORKFLOW, bindings=(replace(COPY, triggers=(Every(60.0),)),)))
    driver.clock.now += 60 + late
    assert flow(driver).standing is standing


def test_a_run_that_finds_no_track_is_late(driver: Driver) -> None:
    driver.request(RunKind.FLOW, "copy")
    assert flow(driver) == Judgement(Standing.WAITING, "run 1 waits for a track")
    driver.clock.now += GRACE + 1
    assert flow(driver).standing is Standing.LATE


def test_what_is_made_from_something_failed_waits_for_it(driver: Driver) -> None:
    driver.catalog.apply(LONGER)
    driver.insert("a")
    driver.run_flow()
    driver.run_flow(LATER)
    assert flow(driver, "later").standing is Standing.FRESH
    fail(driver)
    assert flow(driver, "later") == Judgement(Standing.WAITING, "d is failed")
    assert channel(driver, "e") is Standing.WAITING


def test_a_tasks_own_state_never_waits_for_it(driver: Driver) -> None:
    driver.catalog.apply(LONGER)
    driver.run_flow(LATER)
    assert take(driver.catalog).unread("later") == {}


def test_a_task_that_writes_one_channel_is_drawn_with_it(driver: Driver) -> None:
    drawn = graph(take(driver.catalog).status)
    assert [(n.channel, n.flow, n.task) for n in drawn.nodes] == [
        ("a", None, None),
        ("b", None, None),
        ("d", "copy", "copying"),
    ]
    assert drawn.edges == (("channel a", "channel d"), ("channel b", "channel d"))


def test_a_task_that_writes_several_stands_for_itself_and_its_state_is_only_written(driver: Driver) -> None:
    driver.catalog.apply(LONGER)
    drawn = graph(take(driver.catalog).status)
    own = [e for e in drawn.edges if "task later/shaping" in e]
    assert own == [
        ("channel d", "task later/shaping"),
        ("task later/shaping", "channel e"),
        ("task later/shaping", "channel kept"),
    ]


def test_blocks_wait_along_edges(driver: Driver) -> None:
    driver.insert("a")
    snapshot = take(driver.catalog)
    assert waiting_edges(snapshot, graph(snapshot.status)) == {("channel a", "channel d")}


def test_a_card_says_rows_age_last_run_and_what_waits(driver: Driver) -> None:
    driver.insert("a")
    driver.run_flow()
    driver.insert("b")
    driver.clock.now += 200
    table = card(driver, "channel d")
    assert (table.name, table.href, table.eyebrow_href) == ("d", "/channels/d", "/flows/copy")
    assert table.facts[1] == "run 2 finished in 0.0 s"
    assert table.judgement == Judgement(Standing.WAITING, "1 block on b")
    assert table.sources == "a, b"
    fed = card(driver, "channel a")
    assert fed.facts == ("2 rows · 3 min ago", "2 blocks, read by 1 task")
