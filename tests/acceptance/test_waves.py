"""Waves in real runs: started, propagated by tasks that do not know them, ended, and joined by a barrier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import Open

import tidemill as tm
from tidemill.app import serialization
from tidemill.app.wiring import Tidemill
from tidemill.errors import BadInput, NotFound, WorkflowError


def insert(mill: Tidemill, directory: Path, channel: str, *rows: dict[str, Any]) -> None:
    path = directory / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mill.insert(channel, path)


def read_tags(mill: Tidemill, channel: str, *names: str) -> list[tuple[Any, ...]]:
    """Rows with their tags, without the tag's root, which is a timestamp."""
    rows = mill.rows(channel)
    return sorted((*(row[n] for n in names), row["wave"].partition(".")[2]) for row in rows)


def shop() -> tm.Workflow:
    wf = tm.Workflow("shop")
    wf.input("orders", "number bigint, items array<string>")
    wf.waves("placed", "orders")
    wf.sql("items", "SELECT number, explode(items) AS item FROM placed", waves="placed")
    wf.table("packed", "number bigint, item string, wave string")

    @wf.task(output="packed", waves="items")
    def packing(items: tm.New) -> tm.Delta:
        return items.where("item <> 'air'")

    wf.window("shipments", "packed", "1 wave", "1 wave")
    wf.sql("billed", "SELECT number, size(items) AS price FROM placed", waves="placed")
    wf.barrier("done", ["packed", "billed"])
    return wf


def test_waves_are_propagated_and_joined_by_a_barrier(open_mill: Open, tmp_path: Path) -> None:
    """Order 2 has only unpacked items; order 1 ends with one."""
    mill = open_mill(shop())
    flows = [b.name for b in shop().build_spec().bindings]
    insert(mill, tmp_path, "orders", {"number": 1, "items": ["tea", "rice", "air"]}, {"number": 2, "items": ["air"]})
    insert(mill, tmp_path, "orders", {"number": 3, "items": []})
    for flow in flows:
        mill.run(flow)
    placed = {row["wave"]: row["number"] for row in mill.rows("placed")}
    assert sorted(placed.values()) == [1, 2, 3]
    assert read_tags(mill, "items", "item") == [("air", "1!"), ("air", "3!"), ("rice", "2"), ("tea", "1")]
    assert read_tags(mill, "items_ended") == [("",)], "order 3"
    assert read_tags(mill, "packed", "item") == [("rice", "2.1!"), ("tea", "1.1!")]
    assert read_tags(mill, "packed_ended") == [("",), ("1!",), ("3!",)]
    assert read_tags(mill, "shipments", "item", "_window") == [("rice", 0, "2.1!"), ("tea", 0, "1.1!")]
    assert {placed[row["wave"]] for row in mill.rows("done")} == {1, 2, 3}
    check_lineage_of_tea(mill)


def check_lineage_of_tea(mill: Tidemill) -> None:
    """Up to the order and down to the shipment."""
    (tea,) = (row["wave"] for row in mill.rows("items") if row["item"] == "tea")
    lineage = serialization.serialize_lineage(mill.lineage("items", tea))
    relations = [(r.relation, r.channel) for r in lineage.relatives]
    assert lineage.relatives[2].row == {"number": 1, "item": "tea", "wave": tea}
    assert relations == [
        ("derives from", "done"),
        ("derives from", "placed"),
        ("is", "items"),
        ("was made into", "packed"),
        ("was made into", "shipments"),
        ("was made into", "shipments_expired"),
    ]
    with pytest.raises(NotFound, match="has no event '1.1'"):
        mill.lineage("items", "1.1")
    with pytest.raises(BadInput, match="have no lineage tags"):
        mill.lineage("orders", tea)


def test_a_function_without_tags_is_called_for_each_event(open_mill: Open, tmp_path: Path) -> None:
    """It drops the column and aggregates its input; still each result belongs to one event."""
    wf = tm.Workflow("shop")
    wf.input("orders", "number bigint, wave string")

    @wf.task(waves="orders", channels={"these": "orders"})
    def twice(these: tm.New) -> tm.Delta:
        totals = these.groupBy().sum("number").toDF("total")
        return totals.where("total > 1").union(totals.where("total > 1"))

    mill = open_mill(wf)
    placed = [{"number": 1, "wave": "it's"}, {"number": 2, "wave": "2"}, {"number": 3, "wave": "3!"}]
    insert(mill, tmp_path, "orders", *placed)
    mill.run("twice")
    tagged_totals = sorted((r.wave, r.total) for r in mill.read("twice").collect())
    assert tagged_totals == [("2.1", 2), ("2.2!", 2), ("3!.1", 3), ("3!.2!", 3)]
    assert [r.wave for r in mill.read("twice_ended").collect()] == ["it's"]


def test_a_change_of_a_function_that_propagates_waves_is_detected() -> None:
    def workflow(least: int) -> tm.Workflow:
        wf = tm.Workflow("shop")
        wf.input("orders", "number bigint, wave string")

        @wf.task(waves="orders")
        def large(orders: tm.New) -> tm.Delta:
            return orders.where(f"number > {least}")

        return wf

    one, other, same = (workflow(n).build_spec().bindings[0].compute_identity() for n in (1, 2, 1))
    assert one != other
    assert one == same


def test_waves_that_cannot_be_propagated_are_rejected_when_they_are_declared() -> None:
    wf = tm.Workflow("shop")
    wf.input("orders", "number bigint, wave string")
    with pytest.raises(WorkflowError, match="computes each row from one event"):
        wf.sql("counted", "SELECT count(*) AS n FROM orders", waves="orders")
    with pytest.raises(WorkflowError, match=r"read it as tm\.New"):

        @wf.task(waves="orders")
        def read_all(orders: tm.All) -> tm.Delta:
            return orders

    with pytest.raises(WorkflowError, match=r"make it write tm\.Delta"):

        @wf.task(waves="orders")
        def replace(orders: tm.New) -> tm.Base:
            return orders

    wf.barrier("alone", ["orders"])
    wf.waves("twice", "orders")
    with pytest.raises(WorkflowError, match="two or more") as caught:
        wf.build_spec()
    assert "have no tag yet" in str(caught.value)
