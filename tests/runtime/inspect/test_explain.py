"""`explain` on declared workflows, and on a catalog with complete runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.catalog.driver import Driver, FakeClock

import tidemill as tm
from tidemill.catalog import open_catalog
from tidemill.errors import NotFound
from tidemill.model.block import BlockKind
from tidemill.model.run import Consumption
from tidemill.model.task import ReadMode
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.explanation import TableExplanation, WriterExplanation
from tidemill.runtime.freshness.planning import PlanningContext
from tidemill.runtime.inspect.explain import explain_table


def shop() -> WorkflowSpec:
    wf = tm.Workflow("shop")
    wf.input("orders", "city string, amount bigint")
    wf.input("cities", "city string, country string", key="city")
    wf.sql("totals", "SELECT city, sum(amount) AS total FROM orders GROUP BY city")
    wf.sql("located", "SELECT t.city, t.total, c.country FROM totals t JOIN cities c ON t.city = c.city")
    wf.sql("always", "SELECT city, amount FROM orders WHERE amount > 0", refresh="batch")
    wf.sql("noise", "SELECT city, rand() AS x FROM orders")

    @wf.task(output="copies")
    def copy_orders(orders: tm.New) -> tm.Delta:
        return orders

    @wf.task(output="copies")
    def copy_orders_too(orders: tm.New, cities: tm.All) -> tm.Delta:
        return orders

    return wf.build_spec()


WORKFLOW = shop()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    clock = FakeClock()
    catalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", clock)
    yield Driver(catalog, clock)
    catalog.close()


@pytest.fixture
def applied_driver(driver: Driver) -> Driver:
    driver.catalog.workflows.apply(WORKFLOW)
    return driver


def explain(driver: Driver, table: str) -> TableExplanation:
    return explain_table(driver.catalog, [WORKFLOW], {}, table)


def explain_writer(driver: Driver, table: str) -> WriterExplanation:
    (writer,) = explain(driver, table).writers
    return writer


def refresh(driver: Driver, flow: str) -> None:
    """Run the flow by the chosen variant, in the catalog only."""
    (binding,) = (b for b in WORKFLOW.bindings if b.name == flow)
    chosen, _ = PlanningContext(driver.catalog, {}, WORKFLOW).choose_variants(binding)
    claim = driver.open_flow(chosen)
    driver.commit(claim, [Consumption(*port, span.since.seq, span.upto) for port, span in claim.spans.items()])


def test_the_first_refresh_is_a_batch(applied_driver: Driver) -> None:
    applied_driver.insert("orders")
    writer = explain_writer(applied_driver, "totals")
    assert (writer.mode, writer.refresh) == ("batch", "auto")
    assert "never consumed orders" in writer.reason
    batch, _, incremental = writer.variants
    assert (batch.rows, batch.unsupported_reason) == (2, "")
    assert batch.seconds is not None
    assert (incremental.seconds, incremental.unsupported_reason) == (None, writer.reason)


def test_a_small_change_is_refreshed_incrementally(applied_driver: Driver) -> None:
    for _ in range(3):
        applied_driver.insert("orders")
    refresh(applied_driver, "totals")
    applied_driver.insert("orders")
    writer = explain_writer(applied_driver, "totals")
    assert (writer.mode, writer.reason) == ("incremental", "2 of 8 rows changed")
    batch, _, incremental = writer.variants
    assert (batch.rows, incremental.rows) == (8, 2)
    assert batch.seconds is not None
    assert incremental.seconds is not None
    assert incremental.seconds < batch.seconds
    assert {v.unsupported_reason for v in writer.variants} == {""}


def test_a_declared_refresh_mode_is_the_reason(applied_driver: Driver) -> None:
    applied_driver.insert("orders")
    refresh(applied_driver, "always")
    assert (explain_writer(applied_driver, "always").mode, explain_writer(applied_driver, "always").reason) == (
        "batch",
        "refresh is 'batch'",
    )


def test_operators_states_and_the_program_are_explained(applied_driver: Driver) -> None:
    writer = explain_writer(applied_driver, "totals")
    assert any(line.strip().startswith("group by ") for line in writer.operators)
    assert writer.operators[-1].strip() == "scan orders new append: city, amount"
    (state,) = writer.states
    assert (state.channel, state.updates) == ("totals.state1", "upsert")
    assert state.key == state.columns[:1]
    assert "_rows" in state.columns
    inputs = {line.name: line.inputs for line in writer.program}
    assert {"change 1", "totals.state1 (old)"} == set(inputs["groups of totals.state1"])
    assert list(inputs)[-2:] == ["delta of totals.state1", "delta of totals"]
    assert inputs["delta of totals"] == ("groups of totals.state1",)


def test_a_join_has_a_variant_for_each_side(applied_driver: Driver) -> None:
    writer = explain_writer(applied_driver, "located")
    assert [v.name for v in writer.variants] == ["batch", "incremental", "incremental:totals", "incremental:cities"]
    batch, both, left, _ = writer.variants
    assert batch.reads == (("totals", (ReadMode.ALL,)), ("cities", (ReadMode.ALL,)))
    assert batch.writes == (("located", BlockKind.BASE, None),)
    assert dict(both.reads)["cities"] == (ReadMode.NEW, ReadMode.ALL, ReadMode.OLD)
    assert dict(left.reads)["cities"] == (ReadMode.OLD,)
    assert both.writes == (("located", BlockKind.DELTA, "upsert"),)
    assert left.unsupported_reason == both.unsupported_reason != ""


def test_a_batch_only_query_has_a_reason(applied_driver: Driver) -> None:
    writer = explain_writer(applied_driver, "noise")
    assert (writer.mode, writer.operators, writer.states, writer.program) == ("batch", (), (), ())
    assert [(v.name, v.unsupported_reason) for v in writer.variants] == [("batch", ""), ("incremental", writer.reason)]
    assert "rand()" in writer.reason


def test_before_apply_the_variants_are_known_but_not_the_chosen_one(driver: Driver) -> None:
    writer = explain_writer(driver, "totals")
    assert writer.mode is None
    assert "apply it" in writer.reason
    assert [(v.rows, v.seconds, v.unsupported_reason) for v in writer.variants] == [(None, None, "")] * 3
    assert writer.program
    assert "rand()" in explain_writer(driver, "noise").variants[1].unsupported_reason


def test_every_programmed_task_of_a_table_is_explained(applied_driver: Driver) -> None:
    writers = explain(applied_driver, "copies").writers
    assert [(w.task, w.refresh, w.mode) for w in writers] == [
        ("copy_orders", None, "programmed"), ("copy_orders_too", None, "programmed"),
    ]  # fmt: skip
    assert writers[1].variants[0].reads == (("orders", (ReadMode.NEW,)), ("cities", (ReadMode.ALL,)))
    assert writers[1].variants[0].writes == (("copies", BlockKind.DELTA, None),)


@pytest.mark.parametrize("name", ["rapport", "orders", "totals.state1"])
def test_only_tables_can_be_explained(applied_driver: Driver, name: str) -> None:
    with pytest.raises(NotFound, match=f"no table '{name}' is declared; the tables are always, copies, located"):
        explain(applied_driver, name)
