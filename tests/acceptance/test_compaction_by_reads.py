"""Channels are rewritten because they are read: only whole contents count, and what was paid decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.mill import Mill, opened

import tidemill as tm
from tidemill.intake import load_file
from tidemill.model.block import BlockKind
from tidemill.model.change import Rows
from tidemill.model.run import RunKind
from tidemill.planner.cost import CostModel
from tidemill.runtime.maintenance.compaction import Compactor, assess_compaction, explain_compaction
from tidemill.runtime.maintenance.vacuum import VacuumService
from tidemill.runtime.runs.insert import Inserter

wf = tm.Workflow("reading")
wf.input("users", "name string, city string", key="name")


@wf.task
def whole(users: tm.All) -> tm.Base:
    return {"whole": [{"n": len(users)}]}


@wf.task
def parts(users: tm.New) -> tm.Delta:
    return {"parts": [{"n": len(users)}]}


wf.table("whole", "n bigint")
wf.table("parts", "n bigint")
WORKFLOW = wf.declared()
FLOWS = {b.name: b for b in WORKFLOW.bindings}


@pytest.fixture
def mill(sqlite_template: Path, tmp_path: Path) -> Iterator[Mill]:
    (tmp_path / "catalog.db").write_bytes(sqlite_template.read_bytes())
    with opened(f"sqlite:///{tmp_path / 'catalog.db'}", tmp_path / "blocks") as found:
        found.catalog.apply_workflow(WORKFLOW)
        yield found


def insert(mill: Mill, directory: Path, rows: Rows, kind: BlockKind = BlockKind.DELTA) -> None:
    path = directory / "users.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    Inserter(mill.executor, load_file).insert_file("users", path, kind=kind)


def people(count: int, city: str) -> Rows:
    return [{"name": f"p{n}", "city": city} for n in range(count)]


def tidied(mill: Mill) -> int:
    done = VacuumService(mill.executor).maintain_channels(["users"], Compactor(mill.executor, {}), history=100)
    assert done.problems == ()
    return len(done.major_compactions)


def paid(mill: Mill) -> tuple[int, float]:
    return next(((m.reads, m.seconds) for m in mill.catalog.list_merge_costs() if m.channel == "users"), (0, 0.0))


def test_reading_a_base_alone_or_what_is_new_costs_nothing(mill: Mill, tmp_path: Path) -> None:
    insert(mill, tmp_path, people(20, "here"), BlockKind.BASE)
    mill.executor.run_flow(FLOWS["whole"], {})
    insert(mill, tmp_path, people(5, "there"))
    mill.executor.run_flow(FLOWS["parts"], {})
    assert paid(mill) == (0, 0.0)
    mill.executor.run_flow(FLOWS["whole"], {})
    reads, seconds = paid(mill)
    assert reads == 1
    assert seconds > 0


def test_what_is_read_is_rewritten_once_readers_have_paid_for_it(mill: Mill, tmp_path: Path) -> None:
    insert(mill, tmp_path, people(20, "here"), BlockKind.BASE)
    insert(mill, tmp_path, people(5, "there"))
    read = 0
    while not tidied(mill):
        assert str(assess_compaction(mill.catalog, {}, "users")).startswith(
            "not due: 5 rows wait to be merged into 20: "
        )
        mill.executor.run_flow(FLOWS["whole"], {})
        read += 1
        assert read < 100
    assert read > 1, "one read of little costs less than a new base"
    run = next(r for r in mill.catalog.list_runs(subject="users") if r.kind is RunKind.COMPACTION)
    assert f"compacted because {read} reads have paid" in mill.catalog.read_log(run.id)
    assert paid(mill) == (0, 0.0)
    assert sorted(r["city"] for r in mill.content("users")) == ["here"] * 15 + ["there"] * 5
    assert explain_compaction(mill.catalog, {}, "users") == "not due: nothing to merge"


def test_what_nobody_reads_is_left_alone(mill: Mill, tmp_path: Path) -> None:
    insert(mill, tmp_path, people(20, "here"), BlockKind.BASE)
    for city in ("a", "b", "c"):
        insert(mill, tmp_path, people(20, city))
        mill.executor.run_flow(FLOWS["parts"], {})
        assert tidied(mill) == 0


def test_the_price_of_a_base_is_learnt(mill: Mill, tmp_path: Path) -> None:
    insert(mill, tmp_path, people(20, "here"), BlockKind.BASE)
    for city in ("a", "b", "c"):
        insert(mill, tmp_path, people(5, city))
        assert Compactor(mill.executor, {}).compact_major("users") is not None
    (known,) = [
        CostModel.from_json(m.rewrite_cost) for m in mill.catalog.list_merge_costs() if m.rewrite_cost is not None
    ]
    assert known.runs == 3
    assert known.terms.start < known.prior.start, "writing a few rows without Spark takes no third of a second"


def test_of_what_was_never_written_nothing_is_said(mill: Mill) -> None:
    assert explain_compaction(mill.catalog, {}, "users") == "not due: nothing to merge"
    assert explain_compaction(mill.catalog, {}, "whole") == "not due: nothing to merge"
