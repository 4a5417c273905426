"""Refresh groups: tables that read the same channel are refreshed in one run and one commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.app.registry import build_workflow, parse_definition
from tidemill.errors import WorkflowError
from tidemill.model.run import RunState
from tidemill.runtime.freshness.advice import advise_refresh_group
from tidemill.runtime.freshness.catch_up import CatchUpLimit

COUNTS = "SELECT word, count(*) AS n FROM events GROUP BY word"
TOTALS = "SELECT count(*) AS n FROM events"


def workflow() -> tm.Workflow:
    wf = tm.Workflow("w")
    wf.input("events", "word string")
    wf.table("counts", "word string, n bigint")
    wf.table("totals", "n bigint")
    wf.sql("counts", COUNTS, refresh="incremental", triggers=[tm.on("events")], priority=10.0, refresh_group="words")
    wf.sql("totals", TOTALS, refresh="incremental", triggers=[tm.on("events")], priority=2.0, refresh_group="words")
    return wf


def test_a_refresh_group_is_refreshed_in_one_run(tmp_path: Path) -> None:
    mill = Mill(workflow().build_spec(), tmp_path)
    mill.insert("events", "tide", "mill")
    (run,) = mill.fire_due_triggers()
    assert (run.subject, [f.priority for f in mill.catalog.flows.read_statistics().values()]) == ("words", [12.0])
    mill.attempt(run)
    assert mill.rows("counts") == {("tide", 1), ("mill", 1)}
    assert mill.rows("totals") == {(2,)}
    assert {b.run for b in mill.catalog.blocks.list() if b.channel in ("counts", "totals") and b.seq} == {run.id}
    mill.close()


def test_a_catch_up_limit_applies_to_the_whole_group(tmp_path: Path) -> None:
    mill = Mill(workflow().build_spec(), tmp_path)
    heads: list[set[int]] = []
    mill.insert("events", "first")
    for _ in range(3):
        (run,) = mill.fire_due_triggers() or mill.catalog.runs.list(state=RunState.READY, subject="words")
        mill.attempt(run, CatchUpLimit(1.0, 10.0))
        heads.append({r.upto for r in mill.catalog.runs.list_reads(run.id) if r.channel == "events"})
        if len(heads) == 1:
            for word in ("tide", "mill"):
                mill.now += 10.0
                mill.insert("events", word)
    assert heads == [{1}, {2}, {3}]
    assert mill.rows("totals") == {(3,)}
    mill.close()


def test_a_group_without_a_common_channel_is_rejected() -> None:
    wf = workflow()
    wf.input("other", "word string")
    wf.sql("others", "SELECT word FROM other", refresh_group="words")
    with pytest.raises(WorkflowError, match="read no channel in common"):
        wf.build_spec()


def test_a_table_of_a_flow_cannot_have_a_refresh_group() -> None:
    with pytest.raises(WorkflowError, match="leave refresh_group= out"):
        tm.Flow("f").sql("counts", COUNTS, refresh_group="words")


def test_a_document_declares_a_refresh_group() -> None:
    tables = [{"name": n, "query": q, "refresh_group": "words"} for n, q in (("counts", COUNTS), ("totals", TOTALS))]
    document = {"name": "w", "inputs": [{"name": "events", "columns": "word string"}], "tables": tables}
    (binding,) = build_workflow(parse_definition(document)).bindings
    assert (binding.name, [t.name for t in binding.tasks]) == ("words", ["counts", "totals"])


def build_ungrouped_workflow(*, other: tuple[tm.Trigger, ...] = ()) -> tm.Workflow:
    wf = tm.Workflow("w")
    wf.input("events", "word string")
    wf.table("counts", "word string, n bigint")
    wf.table("totals", "n bigint")
    wf.table("later", "word string, n bigint")
    wf.sql("counts", COUNTS, refresh="incremental", triggers=[tm.on("events")])
    wf.sql("totals", TOTALS, refresh="incremental", triggers=[*(other or [tm.on("events")])])
    wf.sql("later", "SELECT e.word, c.n FROM events e JOIN counts c ON e.word = c.word", triggers=[tm.on("events")])
    return wf


def run_and_advise(mill: Mill) -> str | None:
    """The advice for `counts` after all due runs."""
    mill.insert("events", "tide")
    for run in mill.fire_due_triggers():
        mill.attempt(run)
    return advise_refresh_group(mill.catalog, [mill.workflow], mill.binding("counts"))


def test_a_group_is_advised_for_tables_that_are_due_together(tmp_path: Path) -> None:
    mill = Mill(build_ungrouped_workflow().build_spec(), tmp_path)
    assert advise_refresh_group(mill.catalog, [mill.workflow], mill.binding("counts")) is None  # no run yet
    advice = run_and_advise(mill)
    assert advice is not None
    assert advice.startswith("one run for counts, totals would take")  # `later` is derived from one of them
    assert advise_refresh_group(mill.catalog, [mill.workflow], mill.binding("later")) is None
    mill.close()


def test_no_group_is_advised_for_tables_that_are_due_at_other_times(tmp_path: Path) -> None:
    mill = Mill(build_ungrouped_workflow(other=(tm.every("1 hour"),)).build_spec(), tmp_path)
    assert run_and_advise(mill) is None
    mill.close()
