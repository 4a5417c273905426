"""Tables that the same channel feeds, refreshed together: one job, one run, one commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.app.registry import build_workflow, parse_definition
from tidemill.errors import WorkflowError
from tidemill.model.run import RunState
from tidemill.runtime.freshness.catch_up import CatchUpLimit, attempt_run
from tidemill.runtime.freshness.refresh_groups import advise_refresh_group
from tidemill.runtime.freshness.refresh_mode import choose_variants

COUNTS = "SELECT word, count(*) AS n FROM events GROUP BY word"
TOTALS = "SELECT count(*) AS n FROM events"


def workflow() -> tm.Workflow:
    made = tm.Workflow("w")
    made.input("events", "word string")
    made.table("counts", "word string, n bigint")
    made.table("totals", "n bigint")
    made.sql("counts", COUNTS, refresh="incremental", triggers=[tm.on("events")], priority=10.0, refresh_group="words")
    made.sql("totals", TOTALS, refresh="incremental", triggers=[tm.on("events")], priority=2.0, refresh_group="words")
    return made


def test_what_is_due_for_several_tables_is_one_run(tmp_path: Path) -> None:
    mill = Mill(workflow().declared(), tmp_path)
    mill.insert("events", "tide", "mill")
    (run,) = mill.due()
    assert (run.subject, [f.priority for f in mill.catalog.read_flow_statistics().values()]) == ("words", [12.0])
    attempt_run(mill.executor, run, choose_variants(mill.catalog, mill.binding("words"), {})[0], {}, None)
    assert mill.rows("counts") == {("tide", 1), ("mill", 1)}
    assert mill.rows("totals") == {(2,)}
    assert {b.run for b in mill.catalog.list_blocks() if b.channel in ("counts", "totals") and b.seq} == {run.id}
    mill.close()


def test_together_they_are_chopped_at_the_same_moment(tmp_path: Path) -> None:
    mill = Mill(workflow().declared(), tmp_path)
    heads: list[set[int]] = []
    mill.insert("events", "first")
    for _ in range(3):
        (run,) = mill.due() or mill.catalog.list_runs(state=RunState.READY, subject="words")
        attempt_run(
            mill.executor, run, choose_variants(mill.catalog, mill.binding("words"), {})[0], {}, CatchUpLimit(1.0, 10.0)
        )
        heads.append({r.upto for r in mill.catalog.list_run_reads(run.id) if r.channel == "events"})
        if len(heads) == 1:
            for word in ("tide", "mill"):
                mill.now += 10.0
                mill.insert("events", word)
    assert heads == [{1}, {2}, {3}]
    assert mill.rows("totals") == {(3,)}
    mill.close()


def test_tables_that_nothing_feeds_in_common_are_not_put_together() -> None:
    made = workflow()
    made.input("other", "word string")
    made.sql("others", "SELECT word FROM other", refresh_group="words")
    with pytest.raises(WorkflowError, match="read no channel in common"):
        made.declared()


def test_a_table_inside_a_flow_is_together_with_it_already() -> None:
    with pytest.raises(WorkflowError, match="leave together= out"):
        tm.Flow("f").sql("counts", COUNTS, refresh_group="words")


def test_a_document_says_it_too() -> None:
    tables = [{"name": n, "query": q, "together": "words"} for n, q in (("counts", COUNTS), ("totals", TOTALS))]
    document = {"name": "w", "inputs": [{"name": "events", "columns": "word string"}], "tables": tables}
    (binding,) = build_workflow(parse_definition(document)).bindings
    assert (binding.name, [t.name for t in binding.tasks]) == ("words", ["counts", "totals"])


def separately(*, other: tuple[tm.Trigger, ...] = ()) -> tm.Workflow:
    made = tm.Workflow("w")
    made.input("events", "word string")
    made.table("counts", "word string, n bigint")
    made.table("totals", "n bigint")
    made.table("later", "word string, n bigint")
    made.sql("counts", COUNTS, refresh="incremental", triggers=[tm.on("events")])
    made.sql("totals", TOTALS, refresh="incremental", triggers=[*(other or [tm.on("events")])])
    made.sql("later", "SELECT e.word, c.n FROM events e JOIN counts c ON e.word = c.word", triggers=[tm.on("events")])
    return made


def ran(mill: Mill) -> str | None:
    """What is said of `counts` once all that was due has run."""
    mill.insert("events", "tide")
    for run in mill.due():
        binding = choose_variants(mill.catalog, mill.binding(run.subject), {})[0]
        attempt_run(mill.executor, run, binding, {}, None)
    return advise_refresh_group(mill.catalog, [mill.workflow], mill.binding("counts"))


def test_tables_that_are_due_together_are_weighed(tmp_path: Path) -> None:
    mill = Mill(separately().declared(), tmp_path)
    assert advise_refresh_group(mill.catalog, [mill.workflow], mill.binding("counts")) is None  # nothing ran yet
    said = ran(mill)
    assert said is not None
    assert said.startswith("one run for counts, totals would take")  # `later` comes after one of them
    assert advise_refresh_group(mill.catalog, [mill.workflow], mill.binding("later")) is None
    mill.close()


def test_tables_that_are_due_at_other_times_are_not(tmp_path: Path) -> None:
    mill = Mill(separately(other=(tm.every("1 hour"),)).declared(), tmp_path)
    assert ran(mill) is None
    mill.close()
