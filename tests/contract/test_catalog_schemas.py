"""Schemas that change while rows are inserted, and changes that would make blocks unreadable."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.catalog.driver import CHANNELS, SCHEMA, WORKFLOW, Driver, build_written_block, task
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


def read_schema(driver: Driver, name: str = "a") -> Schema | None:
    return driver.catalog.channels.read(name).channel.schema


def test_an_insert_in_flight_during_apply_does_not_restore_the_old_schema(driver: Driver) -> None:
    claim = driver.open_insert("a")
    driver.catalog.workflows.apply(with_channel(replace(INPUT, schema=WIDER)))
    driver.commit(claim)
    assert read_schema(driver) == WIDER
    assert [b.schema for b in driver.catalog.blocks.read_base_and_deltas("a", 1)][-1] == SCHEMA


def test_a_run_in_flight_during_apply_does_not_restore_the_old_schema(driver: Driver) -> None:
    declared = [replace(CHANNELS[2], schema=schema) for schema in (SCHEMA, WIDER)]
    driver.catalog.workflows.apply(with_channel(declared[0]))
    claim = driver.open_flow()
    driver.catalog.workflows.apply(with_channel(declared[1]))
    driver.commit(claim)
    assert read_schema(driver, "d") == WIDER


@pytest.mark.parametrize(
    "changed", [replace(INPUT, schema=Schema.from_ddl("x string")), replace(INPUT, updates=Upsert(("x",)))]
)
def test_rows_read_for_a_changed_channel_are_rejected(driver: Driver, changed: Channel) -> None:
    request = ClaimRequest(reservations=(ReservationRequest(None, "a", BlockKind.DELTA, expected_channel=INPUT),))
    run = driver.request()
    driver.catalog.workflows.apply(with_channel(changed))
    with pytest.raises(Conflict, match="channel 'a' was changed by apply while rows for it were read; insert them"):
        driver.claim(run, request)
    driver.catalog.workflows.apply(with_channel(replace(INPUT, schema=WIDER)))
    driver.commit(driver.claim(run, request))


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
def test_a_schema_change_that_keeps_blocks_readable_is_allowed(
    catalog: SqlCatalog, driver: Driver, before: str, after: str, in_flight: bool
) -> None:
    catalog.workflows.apply(with_channel(replace(INPUT, schema=Schema.from_ddl(before))))
    claim = driver.open_insert("a")
    if not in_flight:
        catalog.runs.commit(
            claim, RunOutcome((build_written_block(claim, claim.reservations[None, "a"], Schema.from_ddl(before)),))
        )
    workflow = with_channel(replace(INPUT, schema=Schema.from_ddl(after)))
    assert catalog.workflows.list_refusals(workflow) == []
    catalog.workflows.apply(workflow)
    assert read_schema(driver) == Schema.from_ddl(after)


UNREADABLE = [
    ("x string", "x int", "column x from STRING to INT"),
    ("x bigint", "x int", "column x from BIGINT to INT"),
    ("x int", "x string", "column x from INT to STRING"),
    ("x array<int>", "x array<bigint>", "column x from ARRAY<INT> to ARRAY<BIGINT>"),
    ("x int", "x int not null", "column x to NOT NULL"),
    ("x int", "x int, y int not null", "column y to NOT NULL"),
    ("x int", "X int", "the spelling of column x to X"),
]


@pytest.mark.parametrize(("before", "after", "message"), UNREADABLE)
@pytest.mark.parametrize("in_flight", [False, True])
def test_a_schema_change_that_makes_blocks_unreadable_is_rejected(
    catalog: SqlCatalog, driver: Driver, before: str, after: str, message: str, in_flight: bool
) -> None:
    old = Schema.from_ddl(before)
    catalog.workflows.apply(with_channel(replace(INPUT, schema=old)))
    claim = driver.open_insert("a")
    if not in_flight:
        catalog.runs.commit(claim, RunOutcome((build_written_block(claim, claim.reservations[None, "a"], old),)))
    workflow = with_channel(replace(INPUT, schema=Schema.from_ddl(after)))
    (refusal,) = catalog.workflows.list_refusals(workflow)
    assert refusal == (
        f"channel 'a' already holds data, so it cannot change {message}; declare another channel, or a column of "
        "another name"
    )
    with pytest.raises(Conflict, match="cannot change"):
        catalog.workflows.apply(workflow)
    assert read_schema(driver) == old
    if in_flight:
        catalog.runs.kill(claim.run.id)
        catalog.workflows.apply(workflow)


def test_a_dropped_column_cannot_return_with_another_type(catalog: SqlCatalog, driver: Driver) -> None:
    catalog.workflows.apply(with_channel(replace(INPUT, schema=WIDER)))
    claim = driver.open_insert("a")
    catalog.runs.commit(claim, RunOutcome((build_written_block(claim, claim.reservations[None, "a"], WIDER),)))
    catalog.workflows.apply(with_channel(INPUT))
    with pytest.raises(Conflict, match="column y from STRING to INT"):
        catalog.workflows.apply(with_channel(replace(INPUT, schema=Schema.from_ddl("x int, y int"))))
    catalog.workflows.apply(with_channel(replace(INPUT, schema=Schema.from_ddl("x int, z int"))))


def test_the_type_of_a_key_cannot_change(catalog: SqlCatalog, driver: Driver) -> None:
    keyed = Channel("a", ChannelRole.INPUT, WIDER, Upsert(("x",)))
    catalog.workflows.apply(with_channel(keyed))
    claim = driver.open_insert("a")
    catalog.runs.commit(claim, RunOutcome((build_written_block(claim, claim.reservations[None, "a"], WIDER),)))
    with pytest.raises(Conflict, match="key column x from INT to BIGINT"):
        catalog.workflows.apply(with_channel(replace(keyed, schema=Schema.from_ddl("x bigint, y string"))))


def test_a_table_that_its_task_rewrites_may_change_completely(catalog: SqlCatalog, driver: Driver) -> None:
    """Until it is rewritten, readers use the existing blocks."""
    base = BoundFlow("copy", (task("copying", {"a": ReadMode.ALL}, {"d": BlockKind.BASE}),))
    table = [Channel("d", ChannelRole.DERIVED, Schema.from_ddl(f"x {type}"), Append()) for type in ("int", "string")]
    workflows = [WorkflowSpec("w", (*CHANNELS[:2], t), (base,)) for t in table]
    catalog.workflows.apply(workflows[0])
    driver.run_flow(base)
    claim = driver.open_flow(base)
    catalog.workflows.apply(workflows[1])
    assert read_schema(driver, "d") == SCHEMA
    driver.commit(claim)
    assert read_schema(driver, "d") == SCHEMA
    claim = driver.open_flow(base)
    catalog.runs.commit(
        claim,
        RunOutcome((build_written_block(claim, claim.reservations["copying", "d"], Schema.from_ddl("x string")),)),
    )
    assert read_schema(driver, "d") == Schema.from_ddl("x string")


def test_a_table_that_its_task_appends_to_may_not_change_completely(catalog: SqlCatalog, driver: Driver) -> None:
    catalog.workflows.apply(with_channel(replace(CHANNELS[2], schema=SCHEMA)))
    driver.run_flow()
    with pytest.raises(Conflict, match="column x from INT to STRING"):
        catalog.workflows.apply(with_channel(replace(CHANNELS[2], schema=Schema.from_ddl("x string"))))
    assert WORKFLOW.find_channel("d") == CHANNELS[2]
