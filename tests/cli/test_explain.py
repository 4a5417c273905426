"""`explain`, and the output of other commands about declared tables, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.program import FakeEngine, Program

WORKFLOW = """\
import tidemill as tm

wf = tm.Workflow("shop")
wf.input("orders", "id bigint, city string, amount double")
wf.input("cities", "city string, country string", key="city")
wf.sql("totals", "SELECT city, count(*) AS n FROM orders GROUP BY city", refresh="incremental")
wf.sql("located", "SELECT o.id, c.country FROM orders o JOIN cities c ON o.city = c.city")
wf.sql("noise", "SELECT id, rand() AS x FROM orders")


@wf.task
def copied(orders: tm.New) -> tm.Delta:
    return orders
"""


@pytest.fixture
def shop(tidemill: Program, template: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr("tidemill.app.lazy_imports.SparkEngine", FakeEngine)
    return tidemill.copy_project(template, apply_and_insert)


def apply_and_insert(program: Program) -> None:
    program.run_ok("init", program.project)
    (program.project / "workflow.py").write_text(WORKFLOW)
    program.run_ok("apply")
    program.insert_sample()


def test_explain_prints_a_readable_report(shop: Program) -> None:
    out = shop.run_ok("explain", "totals").out
    assert "written by   task totals of flow totals" in out
    assert "runs now     batch: there is no previous refresh to continue from: this query never consumed orders" in out
    assert "compaction   nothing was written yet" in out
    assert "scan orders new append: " in out
    assert "totals.state1   upsert (" in out
    assert "groups of totals.state1 " in out
    assert "totals.state1 (delta, upsert)" in out
    assert "\x1b" not in out


def test_every_variant_has_a_verdict(shop: Program) -> None:
    shop.run_ok("run", "totals")
    shop.insert_sample()
    verdicts = _verdicts(shop, "totals")
    assert verdicts == {
        "batch": "possible, with run totals --variant batch",
        "recompute": "possible, with run totals --variant recompute",
        "incremental": "would run",
    }


def test_a_batch_only_table_has_a_reason(shop: Program) -> None:
    out = shop.run_ok("explain", "noise").out
    assert "runs now     batch: rand() gives another value each time" in out
    assert "impossible: rand() gives another value each time" in out
    assert "operators" not in out


def test_a_programmed_task_shows_its_modes(shop: Program) -> None:
    out = shop.run_ok("explain", "copied").out
    assert "refresh      programmed" in out
    assert "orders (new)" in out
    assert "copied (delta)" in out


def test_before_apply_no_variant_is_chosen(tidemill: Program) -> None:
    tidemill.run_ok("init", tidemill.project)
    (tidemill.project / "workflow.py").write_text(WORKFLOW)
    assert set(_verdicts(tidemill, "totals").values()) == {"known after apply"}


def test_the_json_document_is_complete(shop: Program) -> None:
    document = shop.json("explain", "located")
    (writer,) = document["writers"]
    assert (document["table"], writer["flow"], writer["mode"]) == ("located", "located", "batch")
    assert writer["location"] == f"{shop.project / 'workflow.py'}:7"
    assert [v["name"] for v in writer["variants"]] == [
        "batch", "incremental", "incremental:orders", "incremental:cities",
    ]  # fmt: skip
    assert writer["variants"][0]["reads"] == [["orders", ["all"]], ["cities", ["all"]]]
    assert all(line["operators"] for line in writer["program"])


def test_the_error_for_an_unknown_table_lists_the_tables(shop: Program) -> None:
    result = shop("explain", "rapport", "--json")
    assert result.code == 4
    assert result.error["kind"] == "NotFound"
    assert result.error["message"] == (
        "no table 'rapport' is declared; the tables are copied, located, noise, totals"
    )  # fmt: skip


def test_run_reports_the_variant_and_its_reason(shop: Program) -> None:
    reason = "there is no previous refresh to continue from: this query never consumed orders"
    assert shop.json("run", "totals")["choices"] == {"totals": {"variant": "batch", "reason": reason}}
    shop.insert_sample()
    document = shop.json("run", "totals")
    assert document["choices"] == {"totals": {"variant": "incremental", "reason": "refresh is 'incremental'"}}
    assert document["run"]["stats"]["tasks"]["totals"]["variant"] == "incremental"
    shop.insert_sample()
    lines = shop.run_ok("run", "totals", "--variant", "batch").out.splitlines()
    assert lines[-3].split() == ["totals", "batch", "variant", "'batch'", "was", "requested"]
    assert shop.json("run", "copied")["choices"] == {}


@pytest.mark.parametrize(
    ("flow", "variant", "complaint"),
    [
        (
            "totals",
            "incremental",
            "cannot be refreshed by variant 'incremental' now: there is no previous refresh to continue from",
        ),
        ("totals", "sideways", "has no variant 'sideways'; its variants are batch, recompute, incremental"),
        (
            "copied",
            "incremental",
            "flow 'copied' has no declared table, so there is no variant 'incremental' to choose",
        ),
    ],
)
def test_a_variant_that_cannot_run_is_rejected(shop: Program, flow: str, variant: str, complaint: str) -> None:
    result = shop("run", flow, "--variant", variant)
    assert result.code == 2
    assert complaint in result.err
    assert [r["kind"] for r in shop.json("runs")["runs"]] == ["insert"]


def test_state_channels_are_listed_only_with_all(shop: Program) -> None:
    public = ["cities", "copied", "located", "noise", "orders", "totals"]
    for command in ("status", "channels"):
        assert [c["name"] for c in shop.json(command)["channels"]] == public
        assert [c["name"] for c in shop.json(command, "--all")["channels"]] == [*public, "totals.state1"]
        assert "totals.state1" in shop.run_ok(command, "--all").out
    assert shop.json("channels", "totals.state1")["channel"]["role"] == "state"


def test_plan_names_how_tables_are_refreshed(tidemill: Program) -> None:
    tidemill.run_ok("init", tidemill.project)
    (tidemill.project / "workflow.py").write_text(WORKFLOW)
    details = {s["name"]: s["detail"] for s in tidemill.json("plan")["steps"] if s["what"] == "flow"}
    assert details == {
        "totals": "tasks totals (refresh incremental)",
        "located": "tasks located (refresh auto)",
        "noise": "tasks noise (refresh auto, only in batch: rand() gives another value each time)",
        "copied": "tasks copied",
    }


def _verdicts(program: Program, table: str) -> dict[str, str]:
    """The last column of the table of variants, by their names."""
    lines = program.run_ok("explain", table).out.splitlines()
    first = lines.index(next(n for n in lines if n.startswith("variant "))) + 2
    column = lines[first - 2].index("now")
    rows = lines[first : lines.index("", first)]
    return {row.split()[0]: row[column:].strip() for row in rows if not row.startswith(" ")}
