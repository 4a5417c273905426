"""`explain`, and what other commands say of declared tables; nothing here starts Spark."""

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
def shop(tidemill: Program, made: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr("tidemill.app.wiring.SparkEngine", FakeEngine)
    return tidemill.as_in(made, applied_and_inserted)


def applied_and_inserted(program: Program) -> None:
    program.well("init", program.project)
    (program.project / "workflow.py").write_text(WORKFLOW)
    program.well("apply")
    program.insert_sample()


def test_explain_for_people(shop: Program) -> None:
    out = shop.well("explain", "totals").out
    assert "written by   task totals of flow totals" in out
    assert "runs now     batch: there is no previous refresh to continue from: this query never consumed orders" in out
    assert "compaction   nothing was written yet" in out
    assert "scan orders new append: " in out
    assert "totals.state1   upsert (" in out
    assert "groups of totals.state1 " in out
    assert "totals.state1 (delta, upsert)" in out
    assert "\x1b" not in out


def test_every_variant_has_its_verdict(shop: Program) -> None:
    shop.well("run", "totals")
    shop.insert_sample()
    verdicts = _verdicts(shop, "totals")
    assert verdicts == {
        "batch": "possible, with run totals --variant batch",
        "recompute": "possible, with run totals --variant recompute",
        "incremental": "would run",
    }


def test_a_batch_only_table_says_why(shop: Program) -> None:
    out = shop.well("explain", "noise").out
    assert "runs now     batch: rand() gives another value each time" in out
    assert "impossible: rand() gives another value each time" in out
    assert "operators" not in out


def test_a_programmed_task_shows_its_modes(shop: Program) -> None:
    out = shop.well("explain", "copied").out
    assert "refresh      programmed" in out
    assert "orders (new)" in out
    assert "copied (delta)" in out


def test_before_apply_no_variant_is_chosen(tidemill: Program) -> None:
    tidemill.well("init", tidemill.project)
    (tidemill.project / "workflow.py").write_text(WORKFLOW)
    assert set(_verdicts(tidemill, "totals").values()) == {"known after apply"}


def test_the_document_has_everything(shop: Program) -> None:
    document = shop.json("explain", "located")
    (writer,) = document["writers"]
    assert (document["table"], writer["flow"], writer["way"]) == ("located", "located", "batch")
    assert writer["location"] == f"{shop.project / 'workflow.py'}:7"
    assert [v["name"] for v in writer["variants"]] == [
        "batch", "incremental", "incremental:orders", "incremental:cities",
    ]  # fmt: skip
    assert writer["variants"][0]["reads"] == [["orders", ["all"]], ["cities", ["all"]]]
    assert all(line["operators"] for line in writer["program"])


def test_an_unknown_table_is_named_with_those_there_are(shop: Program) -> None:
    ended = shop("explain", "rapport", "--json")
    assert ended.code == 4
    assert ended.error["kind"] == "NotFound"
    assert ended.error["message"] == (
        "no table 'rapport' is declared; the tables are copied, located, noise, totals"
    )  # fmt: skip


def test_run_says_which_variant_ran_and_why(shop: Program) -> None:
    why = "there is no previous refresh to continue from: this query never consumed orders"
    assert shop.json("run", "totals")["choices"] == {"totals": {"variant": "batch", "why": why}}
    shop.insert_sample()
    document = shop.json("run", "totals")
    assert document["choices"] == {"totals": {"variant": "incremental", "why": "refresh is 'incremental'"}}
    assert document["run"]["stats"]["tasks"]["totals"]["variant"] == "incremental"
    shop.insert_sample()
    lines = shop.well("run", "totals", "--variant", "batch").out.splitlines()
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
def test_a_variant_that_cannot_run_is_refused(shop: Program, flow: str, variant: str, complaint: str) -> None:
    ended = shop("run", flow, "--variant", variant)
    assert ended.code == 2
    assert complaint in ended.err
    assert [r["kind"] for r in shop.json("runs")["runs"]] == ["insert"]


def test_state_channels_are_listed_only_with_all(shop: Program) -> None:
    public = ["cities", "copied", "located", "noise", "orders", "totals"]
    for command in ("status", "channels"):
        assert [c["name"] for c in shop.json(command)["channels"]] == public
        assert [c["name"] for c in shop.json(command, "--all")["channels"]] == [*public, "totals.state1"]
        assert "totals.state1" in shop.well(command, "--all").out
    assert shop.json("channels", "totals.state1")["channel"]["role"] == "state"


def test_plan_names_how_tables_are_refreshed(tidemill: Program) -> None:
    tidemill.well("init", tidemill.project)
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
    lines = program.well("explain", table).out.splitlines()
    first = lines.index(next(n for n in lines if n.startswith("variant "))) + 2
    at = lines[first - 2].index("now")
    rows = lines[first : lines.index("", first)]
    return {row.split()[0]: row[at:].strip() for row in rows if not row.startswith(" ")}
