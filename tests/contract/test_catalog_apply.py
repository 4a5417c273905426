"""Applying workflows: what is new, what changed, what went, and what cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.catalog.driver import CHANNELS, COPY, SCHEMA, WORKFLOW, Driver, task

from tidemill.catalog import SqlCatalog
from tidemill.errors import Conflict, NotFound
from tidemill.model.block import Kind
from tidemill.model.change import Append, Increment, Signed, Updates, Upsert
from tidemill.model.channel import Channel, Role
from tidemill.model.codec import binding_to_json
from tidemill.model.flow import Binding
from tidemill.model.run import RunKind
from tidemill.model.schema import Schema
from tidemill.model.task import Mode
from tidemill.model.workflow import Workflow

EMPTY = Workflow("w", (), ())


def with_channel(channel: Channel) -> Workflow:
    return replace(WORKFLOW, channels=tuple(channel if c.name == channel.name else c for c in CHANNELS))


def last_events(driver: Driver, before: int) -> list[tuple[str, str]]:
    return [(e.kind, e.subject) for e in driver.catalog.events(after=before)]


def newest(driver: Driver) -> int:
    return driver.catalog.events(limit=10_000)[-1].id


def test_everything_declared_is_registered(driver: Driver) -> None:
    registered = driver.catalog.channels()
    assert [(c.channel.name, c.channel.role, c.channel.schema, c.workflow) for c in registered] == [
        ("a", Role.INPUT, SCHEMA, "w"),
        ("b", Role.INPUT, SCHEMA, "w"),
        ("d", Role.DERIVED, None, "w"),
    ]
    (binding,) = driver.catalog.bindings()
    assert (binding.name, binding.workflow, binding.identity) == ("copy", "w", COPY.identity())
    assert binding.spec == binding_to_json(COPY)
    assert driver.kinds_of_events() == ["channel.registered"] * 3 + ["binding.applied"]


def test_applying_again_changes_nothing(driver: Driver) -> None:
    driver.insert()
    driver.run_flow()
    before = (driver.catalog.channels(), driver.catalog.bindings(), newest(driver))
    driver.catalog.apply(WORKFLOW)
    assert (driver.catalog.channels(), driver.catalog.bindings(), newest(driver)) == before


@pytest.mark.parametrize("updates", [Append(), Signed(), Upsert(("x",)), Increment(("x",), ("y",))])
def test_every_merge_kind_comes_back_as_declared(catalog: SqlCatalog, updates: Updates) -> None:
    channel = Channel("c", Role.INPUT, Schema.parse("x int, y bigint not null"), updates)
    catalog.apply(Workflow("w", (channel,), ()))
    assert catalog.channel("c").channel == channel


def test_what_is_no_longer_declared_goes_out_of_use(driver: Driver) -> None:
    driver.insert()
    driver.run_flow()
    before = newest(driver)
    driver.catalog.apply(EMPTY)
    assert (driver.catalog.channels(), driver.catalog.bindings(), driver.catalog.cursors()) == ([], [], [])
    removed = [("channel.removed", c) for c in "abd"] + [("binding.removed", "copy")]
    assert last_events(driver, before) == removed
    assert driver.seqs() == [0, 1]
    for kind, subject in ((RunKind.INSERT, "a"), (RunKind.FLOW, "copy")):
        with pytest.raises(NotFound, match="nor any other"):
            driver.catalog.request(kind, subject)


def test_what_is_declared_again_comes_back_with_its_data(driver: Driver) -> None:
    driver.insert()
    driver.run_flow()
    there = (driver.catalog.channels(), driver.catalog.bindings(), driver.catalog.cursors())
    driver.catalog.apply(EMPTY)
    before = newest(driver)
    driver.catalog.apply(WORKFLOW)
    assert (driver.catalog.channels(), driver.catalog.bindings(), driver.catalog.cursors()) == there
    assert last_events(driver, before) == [("channel.restored", c) for c in "abd"] + [("binding.applied", "copy")]


def test_a_changed_flow_is_applied_and_keeps_its_cursors(driver: Driver) -> None:
    driver.insert()
    driver.run_flow()
    changed = Binding("copy", (task("copying", {"a": Mode.NEW}, {"d": Kind.DELTA}),))
    before = newest(driver)
    driver.catalog.apply(replace(WORKFLOW, bindings=(changed,)))
    assert driver.catalog.bindings()[0].identity == changed.identity()
    assert last_events(driver, before) == [("binding.applied", "copy")]
    assert driver.open_flow(changed).spans["copying", "a"].since.seq == 1


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Workflow("v", CHANNELS[:1], ()), "channel 'a' belongs to workflow 'w'"),
        (Workflow("v", (), (COPY,)), "bound flow 'copy' belongs to workflow 'w'"),
    ],
)
def test_a_name_belongs_to_one_workflow(driver: Driver, other: Workflow, message: str) -> None:
    with pytest.raises(Conflict, match=message):
        driver.catalog.apply(other)
    driver.catalog.apply(EMPTY)
    driver.catalog.apply(other)
    assert {c.workflow for c in driver.catalog.channels()} <= {"v"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (Channel("a", Role.DERIVED, SCHEMA), "from input to derived"),
        (Channel("a", Role.INPUT, SCHEMA, Upsert(("x",))), r"merge from append to upsert\(x\)"),
    ],
)
def test_what_blocks_would_contradict_cannot_change(driver: Driver, changed: Channel, message: str) -> None:
    claim = driver.open_insert()
    for _ in ("while a slot is held", "once it is filled"):
        with pytest.raises(Conflict, match=f"'a' already holds data.*{message}.*another name"):
            driver.catalog.apply(with_channel(changed))
        if driver.head() == 0:
            driver.commit(claim)
    assert driver.catalog.channel("a").channel.role is Role.INPUT


def test_an_empty_channel_may_change_altogether(driver: Driver) -> None:
    driver.catalog.kill(driver.open_insert("a").run.id)
    changed = Channel("a", Role.DERIVED, SCHEMA, Upsert(("x",)))
    before = newest(driver)
    driver.catalog.apply(with_channel(changed))
    assert driver.catalog.channel("a").channel == changed
    assert last_events(driver, before) == [("channel.changed", "a")]


def test_a_key_cannot_change_under_data(catalog: SqlCatalog, driver: Driver) -> None:
    keyed = Channel("a", Role.INPUT, Schema.parse("x int, y int"), Upsert(("x",)))
    catalog.apply(with_channel(keyed))
    driver.insert("a")
    with pytest.raises(Conflict, match=r"upsert\(x\) to upsert\(x, y\)"):
        catalog.apply(with_channel(replace(keyed, updates=Upsert(("x", "y")))))


def test_a_declared_schema_is_stored_and_a_learnt_one_kept(driver: Driver) -> None:
    driver.run_flow()
    driver.catalog.apply(WORKFLOW)
    assert driver.catalog.channel("d").channel.schema == SCHEMA
    wider = Schema.parse("x int, y string")
    driver.catalog.apply(with_channel(Channel("a", Role.INPUT, wider)))
    assert driver.catalog.channel("a").channel.schema == wider


def test_a_conflict_applies_nothing(driver: Driver) -> None:
    before = (driver.catalog.channels(), newest(driver))
    other = Workflow("v", (Channel("new", Role.INPUT, SCHEMA), CHANNELS[0]), ())
    with pytest.raises(Conflict):
        driver.catalog.apply(other)
    assert (driver.catalog.channels(), newest(driver)) == before
