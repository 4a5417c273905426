"""The commands that only read: `status`, `flows`, `channels`, `blocks`, `trace`, `runs`, `events`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from tests.cli.program import FakeEngine, Program

from tidemill.app.wiring import Tidemill
from tidemill.model.schema import Schema
from tidemill.model.wave import LineageTag
from tidemill.runtime.inspect.lineage import EventLineage, LineageRelation, LineageRow


@pytest.fixture
def busy(tidemill: Program, template: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr("tidemill.app.lazy_imports.SparkEngine", FakeEngine)
    return tidemill.copy_project(template, insert_run_and_insert)


def insert_run_and_insert(program: Program) -> None:
    program.create_starter_project()
    program.insert_sample()
    program.run_ok("run", "report")
    program.insert_sample()


def read_channel(program: Program, name: str) -> Any:
    return program.json("channels", name)["channel"]


def test_the_status_of_a_project_before_apply_is_empty(tidemill: Program) -> None:
    tidemill.run_ok("init", tidemill.project)
    status = tidemill.json("status")
    assert status.pop("health") == {"status": "ok", "reason": None}
    assert status == {"channels": [], "flows": [], "active": [], "quotas": []}
    assert "channels: none; tidemill apply registers them" in tidemill.run_ok("status").out


def test_status_shows_consumers_that_are_behind(busy: Program) -> None:
    document = busy.json("status")
    by_name = {c["name"]: c for c in document["channels"]}
    assert by_name["orders"]["consumers"] == [{"flow": "report", "task": "large_orders", "modes": ["new"], "behind": 1}]
    assert by_name["large_orders"]["consumers"][0]["behind"] == 0
    (flow,) = document["flows"]
    assert (flow["pending_channels"], flow["last_run"]["state"]) == (["orders"], "finished")


def test_status_shows_the_versions_that_channels_reflect(busy: Program) -> None:
    first, second = (b["version"] for b in reversed(busy.json("blocks", "orders")["blocks"][:2]))
    assert read_channel(busy, "orders")["provenance"] == {"orders": [second]}
    totals = read_channel(busy, "city_totals")
    assert totals["provenance"] == {"orders>large_orders": [first]}
    (reflects,) = totals["reflects"]
    assert (reflects["pathway"], reflects["versions"]) == (["orders", "large_orders"], [first])
    assert dt.datetime.fromisoformat(reflects["latest"]).timestamp() == pytest.approx(first / 1e6)


def test_status_prints_a_readable_report(busy: Program) -> None:
    out = busy.run_ok("status").out
    assert "report/large_orders (new): 1 block behind" in out
    assert "orders > large_orders: " in out
    assert "pending on orders" in out
    assert "active runs: none" in out
    assert "\x1b" not in out


def test_the_staleness_of_tables_is_weighted(busy: Program) -> None:
    document = busy.json("staleness")
    by_name = {t["table"]: t for t in document["tables"]}
    assert by_name["city_totals"]["now"] > 0
    # One flow writes them all, and they share its priority.
    weighted = sum(t["now"] / len(by_name) for t in by_name.values())
    assert document["total"]["points"][-1]["seconds"] == pytest.approx(weighted, abs=0.1)
    assert busy.json("staleness", "--measure", "age")["measure"] == "age"
    out = busy.run_ok("staleness").out
    assert "recent worst" in out
    assert "city_totals" in out


def test_flows_show_tasks_with_their_modes(busy: Program) -> None:
    (flow,) = busy.json("flows")["flows"]
    assert [(t["name"], t["code"], t["reads"], t["writes"]) for t in flow["tasks"]] == [
        (
            "large_orders",
            "function",
            [{"channel": "orders", "mode": "new"}],
            [{"channel": "large_orders", "kind": "delta"}],
        ),
        (
            "city_totals",
            "sql",
            [{"channel": "large_orders", "mode": "all"}],
            [{"channel": "city_totals", "kind": "base"}],
        ),
    ]
    out = busy.run_ok("flows").out
    assert "orders (new)" in out
    assert "/shop/workflow.py:" in out


def test_one_channel_is_shown_in_full(busy: Program) -> None:
    assert read_channel(busy, "orders")["schema"][0] == {"name": "id", "type": "BIGINT", "nullable": True}
    out = busy.run_ok("channels", "orders").out
    assert "`amount` DOUBLE" in out
    assert "not due: nothing to merge" in out
    assert busy.json("channels", "orders")["compaction"] == "not due: nothing to merge"
    assert [c["name"] for c in busy.json("channels")["channels"]] == ["city_totals", "large_orders", "orders"]


def test_a_channel_that_is_no_longer_declared_can_be_read(busy: Program) -> None:
    workflow = busy.project / "workflow.py"
    workflow.write_text("import tidemill as tm\n\nwf = tm.Workflow('shop')\nwf.input('orders', 'id bigint')\n")
    busy.run_ok("apply")
    assert [c["name"] for c in busy.json("channels")["channels"]] == ["orders"]
    assert read_channel(busy, "city_totals")["consumers"] == []


def test_blocks_are_listed_newest_first(busy: Program) -> None:
    assert [b["id"] for b in busy.json("blocks")["blocks"]] == [7, 6, 5, 4, 3, 2, 1]
    assert [b["seq"] for b in busy.json("blocks", "orders")["blocks"]] == [2, 1, 0]
    assert len(busy.json("blocks", "--limit", 2)["blocks"]) == 2
    assert "insert 1" in busy.run_ok("blocks").out


def test_trace_shows_a_blocks_sources_and_derived_blocks(busy: Program) -> None:
    trace = busy.json("trace", 5)
    assert trace["block"]["channel"] == "large_orders"
    assert [(s["channel"], s["since"], [b["id"] for b in s["blocks"]]) for s in trace["sources"]] == [
        ("orders", 0, [4])
    ]
    assert [b["id"] for b in busy.json("trace", 4)["derived"]] == [5]
    assert "derived from changes of orders after 0 up to 1" in busy.run_ok("trace", 5).out
    assert busy.json("trace", 5, "--depth", 3)["sources"] == trace["sources"]  # inserted blocks have no sources
    assert busy("trace", 5, "--depth", 0).code == 2


def test_a_pinned_block_retains_its_sources(busy: Program) -> None:
    assert {4, 5} <= set(busy.json("pin", "--block", 5)["retained_blocks"])
    assert [b["pinned"] for b in busy.json("blocks", "large_orders")["blocks"]] == [True, False]
    assert "filled, pinned" in busy.run_ok("blocks", "large_orders").out
    assert busy.run_ok("unpin", "--block", 5).out == "block 5 (large_orders at 1) is no longer pinned\n"
    assert "either a dataset or --block" in busy("pin").err


def test_runs_are_listed_newest_first_and_by_state(busy: Program) -> None:
    assert [(r["id"], r["kind"]) for r in busy.json("runs")["runs"]] == [(3, "insert"), (2, "flow"), (1, "insert")]
    assert busy.json("runs", "--state", "failed") == {"runs": []}
    assert busy.run_ok("runs", "--state", "failed").out == "no runs\n"
    assert len(busy.json("runs", "--limit", 1)["runs"]) == 1


def test_one_run_is_shown_with_its_log(busy: Program) -> None:
    document = busy.json("runs", 2)
    assert document["run"]["stats"]["tasks"]["large_orders"]["rows_in"] == 6
    assert [(r["task"], r["channel"]) for r in document["reads"]] == [
        ("city_totals", "large_orders"),
        ("large_orders", "orders"),
    ]
    assert "[bold]large_orders[/bold] speaks" in document["log"]
    out = busy.run_ok("runs", 2).out
    assert out.endswith(document["log"])
    assert busy.run_ok("runs", 2, "--log").out == document["log"]


def test_the_newest_events_are_listed_by_default(busy: Program) -> None:
    everything = busy.json("events", "--after", 0, "--limit", 1000)["events"]
    assert everything[0]["kind"] == "channel.registered"
    assert busy.json("events", "--limit", 3)["events"] == everything[-3:]
    assert busy.json("events", "--after", everything[4]["id"], "--limit", 2)["events"] == everything[5:7]
    assert "run.finished" in busy.run_ok("events").out


@pytest.mark.parametrize(
    "command", [["trace", "99"], ["runs", "99"], ["channels", "x"], ["blocks", "x"], ["kill", "9"]]
)
def test_an_unknown_subject_is_not_found(busy: Program, command: list[str]) -> None:
    result = busy(*command)
    assert (result.code, result.out) == (4, "")
    assert result.err.startswith("error: there is no ")
    assert busy(*command, "--json").error["kind"] == "NotFound"


def test_the_lineage_of_an_event_is_listed(starter: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    tag, schema = LineageTag.from_text("17.3!"), Schema.from_ddl("item string, wave string")
    row = LineageRow(LineageRelation.SAME, "orders", tag, {"item": "tea", "wave": "17.3!"}, schema)
    monkeypatch.setattr(Tidemill, "lineage", lambda _mill, channel, _tag: EventLineage(channel, tag, (row,)))
    relative = {"relation": "is", "channel": "orders", "lineage_tag": "17.3!", "row": row.row}
    document = {"channel": "orders", "lineage_tag": "17.3!", "relatives": [relative]}
    assert starter.json("lineage", "orders", "17.3!") == document
    assert '{"item": "tea", "wave": "17.3!"}' in starter.run_ok("lineage", "orders", "17.3!").out


def test_status_shows_quotas_and_says_which_is_exceeded(busy: Program) -> None:
    with (busy.project / "tidemill.toml").open("a") as settings:
        settings.write('\n[quotas.shop]\ntracks = 1\nstorage = "1 B"\n')
    document = busy.json("status")
    (quota,) = document["quotas"]
    assert (quota["tracks"], quota["storage"], quota["is_exceeded"]) == (1, 1, True)
    assert document["health"]["status"] == "degraded"
    assert "more than its storage quota of 1 B" in busy.run_ok("status").out
    refused = busy("run", "report")
    assert (refused.code, "raise [quotas." in refused.err) == (13, True)
