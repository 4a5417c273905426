"""Schemas that change while rows are inserted, and changes after which blocks could not be read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.catalog.driver import CHANNELS, SCHEMA, WORKFLOW, Driver, filled, task
from tests.contract.test_catalog_apply import with_channel

from tidemill.catalog import SqlCatalog
from tidemill.errors import Conflict
from tidemill.model.block import BlockKind
from tidemill.model.change import Append, Upsert
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.run import ClaimRequest, ReservationRequest, RunOutcome
from tidemill.model.schema import Schema
from tidemill.model.task import ReadMode
from tidemill.model.workflow import WorkflowSpec

WIDER = Schema.from_ddl("x int, y string")
INPUT = Channel("a", ChannelRole.INPUT, SCHEMA)


def schema_of(driver: Driver, name: str = "a") -> Schema | None:
    return driver.catalog.read_channel(name).channel.schema


def test_an_insert_in_flight_across_apply_does_not_bring_the_old_schema_back(driver: Driver) -> None:
    claim = driver.open_insert("a")
    driver.catalog.apply_workflow(with_channel(replace(INPUT, schema=WIDER)))
    driver.commit(claim)
    assert schema_of(driver) == WIDER
    assert [b.schema for b in driver.catalog.read_base_and_deltas("a", 1)][-1] == SCHEMA


def test_a_run_in_flight_across_apply_does_not_either(driver: Driver) -> None:
    declared = [replace(CHANNELS[2], schema=schema) for schema in (SCHEMA, WIDER)]
    driver.catalog.apply_workflow(with_channel(declared[0]))
    claim = driver.open_flow()
    driver.catalog.apply_workflow(with_channel(declared[1]))
    driver.commit(claim)
    assert schema_of(driver, "d") == WIDER


@pytest.mark.parametrize(
    "changed", [replace(INPUT, schema=Schema.from_ddl("x string")), replace(INPUT, updates=Upsert(("x",)))]
)
def test_rows_that_were_read_for_another_channel_are_refused(driver: Driver, changed: Channel) -> None:
    wanted = ClaimRequest(reservations=(ReservationRequest(None, "a", BlockKind.DELTA, expected_channel=INPUT),))
    run = driver.request()
    driver.catalog.apply_workflow(with_channel(changed))
    with pytest.raises(Conflict, match="channel 'a' was changed by apply while rows for it were read; insert them"):
        driver.claim(run, wanted)
    driver.catalog.apply_workflow(with_channel(replace(INPUT, schema=WIDER)))
    driver.commit(driver.claim(run, wanted))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x int", "x int, y string"),
        ("x int, y string", "x int"),
        ("x int, y string", "y string, x int"),
        ("x int not null", "x int"),
        ("x int", "x bigint"),
        ("x float", "x double"),
        ("x date", "x timestamp_ntz"),
    ],
)
@pytest.mark.parametrize("in_flight", [False, True])
def test_a_schema_may_change_so_that_blocks_can_be_read(
    catalog: SqlCatalog, driver: Driver, before: str, after: str, in_flight: bool
) -> None:
    catalog.apply_workflow(with_channel(replace(INPUT, schema=Schema.from_ddl(before))))
    claim = driver.open_insert("a")
    if not in_flight:
        catalog.commit_run(claim, RunOutcome((filled(claim, claim.reservations[None, "a"], Schema.from_ddl(before)),)))
    workflow = with_channel(replace(INPUT, schema=Schema.from_ddl(after)))
    assert catalog.list_refusals(workflow) == []
    catalog.apply_workflow(workflow)
    assert schema_of(driver) == Schema.from_ddl(after)


UNREADABLE = [
    ("x string", "x int", "column x from STRING to INT"),
    ("x bigint", "x int", "column x from BIGINT to INT"),
    ("x int", "x string", "column x from INT to STRING"),
    ("x array<int>", "x array<bigint>", "column x from ARRAY<INT> to ARRAY<BIGINT>"),
    ("x int", "x int not null", "column x to NOT NULL"),
    ("x int", "x int, y int not null", "column y to NOT NULL"),
    ("x int", "X int", "the spelling of column x to X"),
]


@pytest.mark.parametrize(("before", "after", "said"), UNREADABLE)
@pytest.mark.parametrize("in_flight", [False, True])
def test_a_schema_with_which_blocks_could_not_be_read_is_refused(
    catalog: SqlCatalog, driver: Driver, before: str, after: str, said: str, in_flight: bool
) -> None:
    old = Schema.from_ddl(before)
    catalog.apply_workflow(with_channel(replace(INPUT, schema=old)))
    claim = driver.open_insert("a")
    if not in_flight:
        catalog.commit_run(claim, RunOutcome((filled(claim, claim.reservations[None, "a"], old),)))
    workflow = with_channel(replace(INPUT, schema=Schema.from_ddl(after)))
    (refusal,) = catalog.list_refusals(workflow)
    assert refusal == (
        f"channel 'a' already holds data, so it cannot change {said}; declare another channel, or a column of "
        "another name"
    )
    with pytest.raises(Conflict, match="cannot change"):
        catalog.apply_workflow(workflow)
    assert schema_of(driver) == old
    if in_flight:
        catalog.kill_run(claim.run.id)
        catalog.apply_workflow(workflow)


def test_a_column_that_was_dropped_does_not_come_back_as_another_type(catalog: SqlCatalog, driver: Driver) -> None:
    catalog.apply_workflow(with_channel(replace(INPUT, schema=WIDER)))
    claim = driver.open_insert("a")
    catalog.commit_run(claim, RunOutcome((filled(claim, claim.reservations[None, "a"], WIDER),)))
    catalog.apply_workflow(with_channel(INPUT))
    with pytest.raises(Conflict, match="column y from STRING to INT"):
        catalog.apply_workflow(with_channel(replace(INPUT, schema=Schema.from_ddl("x int, y int"))))
    catalog.apply_workflow(with_channel(replace(INPUT, schema=Schema.from_ddl("x int, z int"))))


def test_the_type_of_a_key_stays(catalog: SqlCatalog, driver: Driver) -> None:
    keyed = Channel("a", ChannelRole.INPUT, WIDER, Upsert(("x",)))
    catalog.apply_workflow(with_channel(keyed))
    claim = driver.open_insert("a")
    catalog.commit_run(claim, RunOutcome((filled(claim, claim.reservations[None, "a"], WIDER),)))
    with pytest.raises(Conflict, match="key column x from INT to BIGINT"):
        catalog.apply_workflow(with_channel(replace(keyed, schema=Schema.from_ddl("x bigint, y string"))))


def test_a_table_whose_task_writes_all_of_it_may_change_altogether(catalog: SqlCatalog, driver: Driver) -> None:
    """Until it does, readers go on with the blocks that are there."""
    base = BoundFlow("copy", (task("copying", {"a": ReadMode.ALL}, {"d": BlockKind.BASE}),))
    table = [Channel("d", ChannelRole.DERIVED, Schema.from_ddl(f"x {type}"), Append()) for type in ("int", "string")]
    workflows = [WorkflowSpec("w", (*CHANNELS[:2], t), (base,)) for t in table]
    catalog.apply_workflow(workflows[0])
    driver.run_flow(base)
    claim = driver.open_flow(base)
    catalog.apply_workflow(workflows[1])
    assert schema_of(driver, "d") == SCHEMA
    driver.commit(claim)
    assert schema_of(driver, "d") == SCHEMA
    claim = driver.open_flow(base)
    catalog.commit_run(
        claim, RunOutcome((filled(claim, claim.reservations["copying", "d"], Schema.from_ddl("x string")),))
    )
    assert schema_of(driver, "d") == Schema.from_ddl("x string")


def test_a_table_to_which_its_task_adds_may_not(catalog: SqlCatalog, driver: Driver) -> None:
    catalog.apply_workflow(with_channel(replace(CHANNELS[2], schema=SCHEMA)))
    driver.run_flow()
    with pytest.raises(Conflict, match="column x from INT to STRING"):
        catalog.apply_workflow(with_channel(replace(CHANNELS[2], schema=Schema.from_ddl("x string"))))
    assert WORKFLOW.find_channel("d") == CHANNELS[2]
