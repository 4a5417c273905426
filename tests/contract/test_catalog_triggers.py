"""Triggers in the catalog: due in the transaction that makes them due, handled once, never lost."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from tests.catalog.driver import CHANNELS, COPY, WORKFLOW, Driver, FakeClock, task

from tidemill.catalog import SqlCatalog
from tidemill.errors import NotFound
from tidemill.model.block import BlockKind
from tidemill.model.flow import BoundFlow
from tidemill.model.run import RunState, build_claim_request
from tidemill.model.task import ReadMode
from tidemill.model.trigger import (
    AllOfTrigger,
    CronTrigger,
    DataTrigger,
    IntervalTrigger,
    RunMilestone,
    RunTrigger,
    Trigger,
)
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.records import Server

OTHER = BoundFlow("other", (task("others", {"b": ReadMode.NEW}, {"e": BlockKind.DELTA}),))


def apply_triggers(driver: Driver, *triggers: Trigger, other: tuple[Trigger, ...] = ()) -> None:
    bindings = (replace(COPY, triggers=triggers), replace(OTHER, triggers=other))
    channels = (*CHANNELS, replace(CHANNELS[2], name="e"))
    driver.catalog.workflows.apply(WorkflowSpec("w", channels, bindings))


def fire_due_triggers(driver: Driver) -> list[int]:
    """Fire everything that is due once, as the leader does; returns the requested runs."""
    return [
        run for leaf in driver.catalog.triggers.list_due() if (run := driver.catalog.triggers.fire(leaf)) is not None
    ]


def list_runnable(driver: Driver) -> list[str]:
    return [run.subject for run in driver.catalog.runs.list_runnable()]


def finish_run(driver: Driver, run: int, binding: BoundFlow = COPY) -> None:
    driver.commit(driver.claim(run, build_claim_request(binding)))


def test_data_triggers_a_run_only_on_its_channel(driver: Driver) -> None:
    apply_triggers(driver, DataTrigger("a"))
    driver.insert("b")
    assert fire_due_triggers(driver) == []
    driver.insert("a")
    (run,) = fire_due_triggers(driver)
    assert driver.catalog.runs.read(run).state is RunState.READY
    assert fire_due_triggers(driver) == []
    assert [(f.flow, f.run, f.missed) for f in driver.catalog.triggers.list_firings()] == [("copy", run, 0)]


def test_data_that_arrives_while_a_run_is_pending_is_read_by_that_run(driver: Driver) -> None:
    apply_triggers(driver, DataTrigger("a"))
    driver.insert("a")
    (first,) = fire_due_triggers(driver)
    driver.insert("a")
    assert fire_due_triggers(driver) == [first]
    claim = driver.claim(first, build_claim_request(COPY))
    driver.insert("a")
    (second,) = fire_due_triggers(driver)
    assert second != first
    assert list_runnable(driver) == []  # one run of a flow at a time
    driver.commit(claim)
    assert list_runnable(driver) == ["copy"]


def test_a_minimum_of_rows_is_counted_from_the_last_firing(driver: Driver) -> None:
    apply_triggers(driver, DataTrigger("a", rows=6))  # an insert by the driver has two rows
    for _ in range(2):
        driver.insert("a")
    assert fire_due_triggers(driver) == []
    driver.insert("a")
    assert len(fire_due_triggers(driver)) == 1
    driver.insert("a")
    assert fire_due_triggers(driver) == []


def test_few_rows_are_due_when_the_oldest_has_waited_long_enough(driver: Driver, clock: FakeClock) -> None:
    apply_triggers(driver, DataTrigger("a", rows=1000, age=60.0))
    driver.insert("a")
    clock.now += 30
    driver.insert("a")
    assert fire_due_triggers(driver) == []
    clock.now += 30
    assert len(fire_due_triggers(driver)) == 1


def test_an_interval_fires_regularly_and_coalesces_missed_times(driver: Driver, clock: FakeClock) -> None:
    apply_triggers(driver, IntervalTrigger(10.0))
    assert fire_due_triggers(driver) == []
    clock.now += 10
    assert len(fire_due_triggers(driver)) == 1
    clock.now += 1000  # no server was running
    assert len(fire_due_triggers(driver)) == 1
    assert fire_due_triggers(driver) == []
    assert [f.missed for f in driver.catalog.triggers.list_firings()] == [99, 0]
    (leaf,) = driver.catalog.triggers.list()
    assert leaf.due == 1_000 + 10 * 102


def test_no_trigger_fires_twice_when_the_clock_goes_back(driver: Driver, clock: FakeClock) -> None:
    apply_triggers(driver, IntervalTrigger(10.0))
    clock.now += 10
    assert len(fire_due_triggers(driver)) == 1
    clock.now -= 500
    assert fire_due_triggers(driver) == []
    clock.now += 500
    assert fire_due_triggers(driver) == []
    clock.now += 10
    assert len(fire_due_triggers(driver)) == 1


def test_cron_uses_the_local_time_of_its_time_zone(driver: Driver, clock: FakeClock) -> None:
    apply_triggers(driver, CronTrigger("0 1 * * *", "Europe/Berlin"))  # the epoch is at one o'clock there
    (leaf,) = driver.catalog.triggers.list()
    assert leaf.due == 86_400.0
    clock.now = 86_400.0
    assert len(fire_due_triggers(driver)) == 1


@pytest.mark.parametrize("reached", RunMilestone)
def test_a_flow_is_triggered_by_the_outcome_of_another(driver: Driver, reached: RunMilestone) -> None:
    apply_triggers(driver, DataTrigger("a"), other=(RunTrigger("copy", reached),))
    driver.insert("a")
    (run,) = fire_due_triggers(driver)
    claim = driver.claim(run, build_claim_request(COPY))
    if reached is RunMilestone.COMPLETED:
        driver.commit(claim)
    if reached is RunMilestone.FAILED:
        driver.catalog.runs.fail(run, claim.run.fencing_token, error="no")
    (following,) = fire_due_triggers(driver)
    assert driver.catalog.runs.read(following).subject == "other"


def test_an_attempt_that_will_be_retried_is_not_a_failure(driver: Driver) -> None:
    apply_triggers(driver, DataTrigger("a"), other=(RunTrigger("copy", RunMilestone.FAILED),))
    driver.insert("a")
    (run,) = fire_due_triggers(driver)
    claim = driver.claim(run, build_claim_request(COPY))
    driver.catalog.runs.fail(run, claim.run.fencing_token, error="no", retry_in=0.0, is_lost=True)
    assert fire_due_triggers(driver) == []


def test_a_compound_trigger_waits_for_all_its_parts_each_time(driver: Driver, clock: FakeClock) -> None:
    apply_triggers(driver, AllOfTrigger((DataTrigger("a"), AllOfTrigger((IntervalTrigger(10.0), DataTrigger("b"))))))
    driver.insert("a")
    driver.insert("a")
    clock.now += 10
    assert fire_due_triggers(driver) == []
    driver.insert("b")
    assert len(fire_due_triggers(driver)) == 1
    driver.insert("a")
    driver.insert("b")
    assert fire_due_triggers(driver) == []  # the interval has not fired again
    clock.now += 10
    assert len(fire_due_triggers(driver)) == 1


def test_a_paused_workflow_runs_nothing_and_keeps_its_firings(driver: Driver, clock: FakeClock) -> None:
    apply_triggers(driver, DataTrigger("a"), IntervalTrigger(10.0))
    driver.insert("a")
    fire_due_triggers(driver)
    driver.catalog.workflows.set_paused("w", paused=True)
    assert list_runnable(driver) == []
    driver.insert("a")
    clock.now += 100
    assert fire_due_triggers(driver) == []
    driver.catalog.workflows.set_paused("w", paused=False)
    assert list_runnable(driver) == ["copy"]
    assert len(fire_due_triggers(driver)) == 2
    assert [w.paused for w in driver.catalog.workflows.list()] == [False]


def test_priorities_order_the_runs_of_workflows(driver: Driver) -> None:
    for name in ("x", "y"):
        channels = (replace(CHANNELS[0], name=f"in_{name}"), replace(CHANNELS[2], name=f"out_{name}"))
        reading = task(f"t_{name}", {f"in_{name}": ReadMode.NEW}, {f"out_{name}": BlockKind.DELTA})
        binding = BoundFlow(f"f_{name}", (reading,), triggers=(DataTrigger(f"in_{name}"),))
        driver.catalog.workflows.apply(WorkflowSpec(name, channels, (binding,)))
        driver.insert(f"in_{name}")
        driver.clock.now += 1
    fire_due_triggers(driver)
    assert list_runnable(driver) == ["f_x", "f_y"]
    driver.catalog.workflows.set_priority("y", 5)
    assert list_runnable(driver) == ["f_y", "f_x"]


def test_an_unknown_workflow_cannot_be_paused(driver: Driver) -> None:
    with pytest.raises(NotFound, match=r"no workflow 'nope'; known are w"):
        driver.catalog.workflows.set_paused("nope", paused=True)


def test_a_removed_workflow_is_unknown(driver: Driver) -> None:
    driver.catalog.workflows.apply(WorkflowSpec("w", (), ()))
    for change in (
        lambda: driver.catalog.workflows.set_paused("w", paused=True),
        lambda: driver.catalog.workflows.set_priority("w", 5),
    ):
        with pytest.raises(NotFound, match=r"no workflow 'w'; known are none"):
            change()


def test_a_trigger_that_stays_declared_keeps_its_state(driver: Driver, clock: FakeClock) -> None:
    apply_triggers(driver, IntervalTrigger(10.0), DataTrigger("a"))
    clock.now += 9
    driver.insert("a")
    apply_triggers(driver, IntervalTrigger(10.0), DataTrigger("a"), DataTrigger("b"))
    clock.now += 1
    assert len(set(fire_due_triggers(driver))) == 1
    assert sorted(str(f.trigger) for f in driver.catalog.triggers.list_firings()) == ["data on a", "every 10 s"]


def test_an_undeclared_trigger_does_not_fire(driver: Driver) -> None:
    apply_triggers(driver, DataTrigger("a"))
    driver.insert("a")
    driver.catalog.workflows.apply(WORKFLOW)
    assert fire_due_triggers(driver) == []
    assert driver.catalog.triggers.list() == []


def test_many_servers_handle_each_firing_once(
    driver: Driver, open_another: Callable[[], SqlCatalog], clock: FakeClock
) -> None:
    apply_triggers(driver, DataTrigger("a"), AllOfTrigger((DataTrigger("a"), DataTrigger("b"))))
    servers = [open_another() for _ in range(4)]
    for _ in range(5):
        driver.insert("a")
        driver.insert("b")
        leaves = driver.catalog.triggers.list_due()
        work = [(catalog, leaf) for leaf in leaves for catalog in servers]
        with ThreadPoolExecutor(4) as pool:
            fired_runs = [run for run in pool.map(lambda w: w[0].triggers.fire(w[1]), work) if run is not None]
        assert len(fired_runs) == 2
        for run in {*fired_runs}:
            finish_run(driver, run)
    assert len(driver.catalog.triggers.list_firings()) == 10


def test_a_server_leads_until_its_heartbeat_stops(driver: Driver, clock: FakeClock) -> None:
    one, two = Server("one", "up", 1), Server("two", "work", 2)
    assert driver.catalog.servers.record_heartbeat(one, lease=5.0)
    assert not driver.catalog.servers.record_heartbeat(two, lease=5.0)
    clock.now += 4
    assert driver.catalog.servers.record_heartbeat(one, lease=5.0)
    clock.now += 6
    assert driver.catalog.servers.record_heartbeat(two, lease=5.0)
    assert not driver.catalog.servers.record_heartbeat(one, lease=5.0)
    assert [(s.name, s.leader) for s in driver.catalog.servers.list()] == [("one", False), ("two", True)]
    driver.catalog.servers.deregister(two)
    assert driver.catalog.servers.record_heartbeat(one, lease=5.0)
    assert [s.state for s in driver.catalog.servers.list()] == ["serving", "stopped"]


def test_a_dead_server_is_silent_leads_no_more_and_is_finally_not_listed(driver: Driver, clock: FakeClock) -> None:
    dead, stopped, alive = Server("dead", "up", 4), Server("stopped", "work", 2), Server("alive", "work", 2)
    for server in (dead, stopped, alive):
        driver.catalog.servers.record_heartbeat(server, lease=5.0)
    driver.catalog.servers.deregister(stopped)
    assert [(s.name, s.state, s.leader) for s in driver.catalog.servers.list()] == [
        ("alive", "serving", False),
        ("dead", "serving", True),
        ("stopped", "stopped", False),
    ]
    clock.now += 31
    driver.catalog.servers.record_heartbeat(replace(alive, state="draining"), lease=5.0)
    assert [(s.name, s.state, s.leader) for s in driver.catalog.servers.list()] == [
        ("alive", "draining", False),
        ("dead", "silent", False),
        ("stopped", "stopped", False),
    ]
    clock.now += 86_401
    assert driver.catalog.servers.list() == []


def test_a_draining_server_does_not_lead(driver: Driver) -> None:
    assert not driver.catalog.servers.record_heartbeat(Server("one", "up", 1, state="draining"), lease=5.0)


def test_a_server_that_runs_a_source_is_not_the_leader(driver: Driver) -> None:
    one, two = Server("one", "up", 2), Server("two", "work", 2)
    assert driver.catalog.servers.record_heartbeat(one, lease=5)
    assert not driver.catalog.servers.record_heartbeat(two, lease=5)
    assert driver.catalog.servers.acquire_lease("source:orders", "two", lease=5)
    assert [(s.name, s.leader) for s in driver.catalog.servers.list()] == [("one", True), ("two", False)]
