"""`explain` on what workflows declare, and on a catalog that was driven through whole runs."""

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
from tidemill.runtime.freshness.refresh_mode import choose_variants
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
    def copied(orders: tm.New) -> tm.Delta:
        return orders

    @wf.task(output="copies")
    def copied_too(orders: tm.New, cities: tm.All) -> tm.Delta:
        return orders

    return wf.declared()


WORKFLOW = shop()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    clock = FakeClock()
    catalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", clock)
    yield Driver(catalog, clock)
    catalog.close()


@pytest.fixture
def applied(driver: Driver) -> Driver:
    driver.catalog.apply_workflow(WORKFLOW)
    return driver


def explained(driver: Driver, table: str) -> TableExplanation:
    return explain_table(driver.catalog, [WORKFLOW], {}, table)


def only(driver: Driver, table: str) -> WriterExplanation:
    (writer,) = explained(driver, table).writers
    return writer


def refresh(driver: Driver, flow: str) -> None:
    """A run of the flow by the variant that is chosen, as far as the catalog sees it."""
    (binding,) = (b for b in WORKFLOW.bindings if b.name == flow)
    running, _ = choose_variants(driver.catalog, binding, {})
    claim = driver.open_flow(running)
    driver.commit(claim, [Consumption(*at, span.since.seq, span.upto) for at, span in claim.spans.items()])


def test_the_first_refresh_is_in_batch(applied: Driver) -> None:
    applied.insert("orders")
    found = only(applied, "totals")
    assert (found.mode, found.refresh) == ("batch", "auto")
    assert "never consumed orders" in found.reason
    batch, _, incremental = found.variants
    assert (batch.rows, batch.unsupported_reason) == (2, "")
    assert batch.seconds is not None
    assert (incremental.seconds, incremental.unsupported_reason) == (None, found.reason)


def test_then_a_small_change_is_taken_in(applied: Driver) -> None:
    for _ in range(3):
        applied.insert("orders")
    refresh(applied, "totals")
    applied.insert("orders")
    found = only(applied, "totals")
    assert (found.mode, found.reason) == ("incremental", "2 of 8 rows changed")
    batch, _, incremental = found.variants
    assert (batch.rows, incremental.rows) == (8, 2)
    assert batch.seconds is not None
    assert incremental.seconds is not None
    assert incremental.seconds < batch.seconds
    assert {v.unsupported_reason for v in found.variants} == {""}


def test_what_the_user_chose_is_the_reason(applied: Driver) -> None:
    applied.insert("orders")
    refresh(applied, "always")
    assert (only(applied, "always").mode, only(applied, "always").reason) == ("batch", "refresh is 'batch'")


def test_widgets_states_and_the_program(applied: Driver) -> None:
    found = only(applied, "totals")
    assert any(line.strip().startswith("group by ") for line in found.operators)
    assert found.operators[-1].strip() == "scan orders new append: city, amount"
    (state,) = found.states
    assert (state.channel, state.updates) == ("totals.state1", "upsert")
    assert state.key == state.columns[:1]
    assert "_rows" in state.columns
    looks_at = {line.name: line.inputs for line in found.program}
    assert {"change 1", "totals.state1 (old)"} == set(looks_at["groups of totals.state1"])
    assert list(looks_at)[-2:] == ["delta of totals.state1", "delta of totals"]
    assert looks_at["delta of totals"] == ("groups of totals.state1",)


def test_a_variant_for_each_side_of_a_join(applied: Driver) -> None:
    found = only(applied, "located")
    assert [v.name for v in found.variants] == ["batch", "incremental", "incremental:totals", "incremental:cities"]
    batch, both, left, _ = found.variants
    assert batch.reads == (("totals", (ReadMode.ALL,)), ("cities", (ReadMode.ALL,)))
    assert batch.writes == (("located", BlockKind.BASE, None),)
    assert dict(both.reads)["cities"] == (ReadMode.NEW, ReadMode.ALL, ReadMode.OLD)
    assert dict(left.reads)["cities"] == (ReadMode.OLD,)
    assert both.writes == (("located", BlockKind.DELTA, "upsert"),)
    assert left.unsupported_reason == both.unsupported_reason != ""


def test_a_query_that_can_only_be_batch_says_why(applied: Driver) -> None:
    found = only(applied, "noise")
    assert (found.mode, found.operators, found.states, found.program) == ("batch", (), (), ())
    assert [(v.name, v.unsupported_reason) for v in found.variants] == [("batch", ""), ("incremental", found.reason)]
    assert "rand()" in found.reason


def test_before_apply_the_ways_are_known_but_not_which_would_run(driver: Driver) -> None:
    found = only(driver, "totals")
    assert found.mode is None
    assert "apply it" in found.reason
    assert [(v.rows, v.seconds, v.unsupported_reason) for v in found.variants] == [(None, None, "")] * 3
    assert found.program
    assert "rand()" in only(driver, "noise").variants[1].unsupported_reason


def test_every_programmed_task_of_a_table_with_its_modes(applied: Driver) -> None:
    found = explained(applied, "copies").writers
    assert [(w.task, w.refresh, w.mode) for w in found] == [
        ("copied", None, "programmed"), ("copied_too", None, "programmed"),
    ]  # fmt: skip
    assert found[1].variants[0].reads == (("orders", (ReadMode.NEW,)), ("cities", (ReadMode.ALL,)))
    assert found[1].variants[0].writes == (("copies", BlockKind.DELTA, None),)


@pytest.mark.parametrize("name", ["rapport", "orders", "totals.state1"])
def test_only_tables_can_be_explained(applied: Driver, name: str) -> None:
    with pytest.raises(NotFound, match=f"no table '{name}' is declared; the tables are always, copies, located"):
        explained(applied, name)
