"""Applying workflows: additions, changes, removals and conflicts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.catalog.driver import CHANNELS, COPY, SCHEMA, WORKFLOW, Driver, task

from tidemill.catalog import SqlCatalog
from tidemill.errors import Conflict, NotFound
from tidemill.model.block import BlockKind
from tidemill.model.change import Append, Increment, Signed, Updates, Upsert
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.run import RunKind
from tidemill.model.schema import Schema
from tidemill.model.task import ReadMode
from tidemill.model.workflow import WorkflowSpec

EMPTY = WorkflowSpec("w", (), ())


def with_channel(channel: Channel) -> WorkflowSpec:
    return replace(WORKFLOW, channels=tuple(channel if c.name == channel.name else c for c in CHANNELS))


def list_events_after(driver: Driver, before: int) -> list[tuple[str, str]]:
    return [(e.kind, e.subject) for e in driver.catalog.events.list(after=before)]


def read_newest_event(driver: Driver) -> int:
    return driver.catalog.events.list(limit=10_000)[-1].id


def test_everything_declared_is_registered(driver: Driver) -> None:
    registered = driver.catalog.channels.list()
    assert [(c.channel.name, c.channel.role, c.channel.schema, c.workflow) for c in registered] == [
        ("a", ChannelRole.INPUT, SCHEMA, "w"),
        ("b", ChannelRole.INPUT, SCHEMA, "w"),
        ("d", ChannelRole.DERIVED, None, "w"),
    ]
    (binding,) = driver.catalog.flows.list()
    assert (binding.name, binding.workflow, binding.identity) == ("copy", "w", COPY.compute_identity())
    (task,), (declared,) = binding.tasks, COPY.tasks
    assert (task.name, task.identity, task.code) == (declared.name, declared.compute_identity(), "sql")
    assert task.reads == (("a", ReadMode.NEW), ("b", ReadMode.ALL))
    assert task.writes == (("d", BlockKind.DELTA),)
    assert (task.location, binding.attempts, binding.priority) == (str(declared.location), 1, 1.0)
    assert driver.kinds_of_events() == ["channel.registered"] * 3 + ["binding.applied"]


def test_applying_the_same_workflow_again_changes_nothing(driver: Driver) -> None:
    driver.insert()
    driver.run_flow()
    before = (driver.catalog.channels.list(), driver.catalog.flows.list(), read_newest_event(driver))
    driver.catalog.workflows.apply(WORKFLOW)
    assert (driver.catalog.channels.list(), driver.catalog.flows.list(), read_newest_event(driver)) == before


@pytest.mark.parametrize("updates", [Append(), Signed(), Upsert(("x",)), Increment(("x",), ("y",))])
def test_every_merge_kind_is_read_back_as_declared(catalog: SqlCatalog, updates: Updates) -> None:
    channel = Channel("c", ChannelRole.INPUT, Schema.from_ddl("x int, y bigint not null"), updates)
    catalog.workflows.apply(WorkflowSpec("w", (channel,), ()))
    assert catalog.channels.read("c").channel == channel


def test_undeclared_channels_and_flows_are_removed(driver: Driver) -> None:
    driver.insert()
    driver.run_flow()
    before = read_newest_event(driver)
    driver.catalog.workflows.apply(EMPTY)
    assert (driver.catalog.channels.list(), driver.catalog.flows.list(), driver.catalog.channels.read_cursors()) == (
        [],
        [],
        [],
    )
    removed = [("channel.removed", c) for c in "abd"] + [("binding.removed", "copy")]
    assert list_events_after(driver, before) == removed
    assert driver.seqs() == [0, 1]
    for kind, subject in ((RunKind.INSERT, "a"), (RunKind.FLOW, "copy")):
        with pytest.raises(NotFound, match="nor any other"):
            driver.catalog.runs.request(kind, subject)


def test_a_channel_that_is_declared_again_has_its_data(driver: Driver) -> None:
    driver.insert()
    driver.run_flow()
    before_removal = (
        driver.catalog.channels.list(),
        driver.catalog.flows.list(),
        driver.catalog.channels.read_cursors(),
    )
    driver.catalog.workflows.apply(EMPTY)
    before = read_newest_event(driver)
    driver.catalog.workflows.apply(WORKFLOW)
    assert (
        driver.catalog.channels.list(),
        driver.catalog.flows.list(),
        driver.catalog.channels.read_cursors(),
    ) == before_removal
    assert list_events_after(driver, before) == [("channel.restored", c) for c in "abd"] + [("binding.applied", "copy")]


def test_a_changed_flow_is_applied_and_keeps_its_cursors(driver: Driver) -> None:
    driver.insert()
    driver.run_flow()
    changed = BoundFlow("copy", (task("copying", {"a": ReadMode.NEW}, {"d": BlockKind.DELTA}),))
    before = read_newest_event(driver)
    driver.catalog.workflows.apply(replace(WORKFLOW, bindings=(changed,)))
    assert driver.catalog.flows.list()[0].identity == changed.compute_identity()
    assert list_events_after(driver, before) == [("binding.applied", "copy")]
    assert driver.open_flow(changed).spans["copying", "a"].since.seq == 1


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (WorkflowSpec("v", CHANNELS[:1], ()), "channel 'a' belongs to workflow 'w'"),
        (WorkflowSpec("v", (), (COPY,)), "bound flow 'copy' belongs to workflow 'w'"),
    ],
)
def test_a_name_belongs_to_one_workflow(driver: Driver, other: WorkflowSpec, message: str) -> None:
    with pytest.raises(Conflict, match=message):
        driver.catalog.workflows.apply(other)
    driver.catalog.workflows.apply(EMPTY)
    driver.catalog.workflows.apply(other)
    assert {c.workflow for c in driver.catalog.channels.list()} <= {"v"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (Channel("a", ChannelRole.DERIVED, SCHEMA), "from input to derived"),
        (Channel("a", ChannelRole.INPUT, SCHEMA, Upsert(("x",))), r"merge kind from append to upsert\(x\)"),
    ],
)
def test_a_channel_with_data_cannot_change_its_role_or_merge_kind(
    driver: Driver, changed: Channel, message: str
) -> None:
    claim = driver.open_insert()
    for _ in ("while a block is reserved", "once it is filled"):
        with pytest.raises(Conflict, match=f"'a' already holds data.*{message}.*another name"):
            driver.catalog.workflows.apply(with_channel(changed))
        if driver.head() == 0:
            driver.commit(claim)
    assert driver.catalog.channels.read("a").channel.role is ChannelRole.INPUT


def test_an_empty_channel_may_change_completely(driver: Driver) -> None:
    driver.catalog.runs.kill(driver.open_insert("a").run.id)
    changed = Channel("a", ChannelRole.DERIVED, SCHEMA, Upsert(("x",)))
    before = read_newest_event(driver)
    driver.catalog.workflows.apply(with_channel(changed))
    assert driver.catalog.channels.read("a").channel == changed
    assert list_events_after(driver, before) == [("channel.changed", "a")]


def test_the_key_of_a_channel_with_data_cannot_change(catalog: SqlCatalog, driver: Driver) -> None:
    keyed = Channel("a", ChannelRole.INPUT, Schema.from_ddl("x int, y int"), Upsert(("x",)))
    catalog.workflows.apply(with_channel(keyed))
    driver.insert("a")
    with pytest.raises(Conflict, match=r"upsert\(x\) to upsert\(x, y\)"):
        catalog.workflows.apply(with_channel(replace(keyed, updates=Upsert(("x", "y")))))


def test_a_declared_schema_is_stored_and_an_inferred_one_is_kept(driver: Driver) -> None:
    driver.run_flow()
    driver.catalog.workflows.apply(WORKFLOW)
    assert driver.catalog.channels.read("d").channel.schema == SCHEMA
    wider = Schema.from_ddl("x int, y string")
    driver.catalog.workflows.apply(with_channel(Channel("a", ChannelRole.INPUT, wider)))
    assert driver.catalog.channels.read("a").channel.schema == wider


def test_a_conflict_applies_nothing(driver: Driver) -> None:
    before = (driver.catalog.channels.list(), read_newest_event(driver))
    other = WorkflowSpec("v", (Channel("new", ChannelRole.INPUT, SCHEMA), CHANNELS[0]), ())
    with pytest.raises(Conflict):
        driver.catalog.workflows.apply(other)
    assert (driver.catalog.channels.list(), read_newest_event(driver)) == before
