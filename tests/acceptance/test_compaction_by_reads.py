"""Major compaction caused by reads: only full reads count, and it is due when their merge costs exceed the rewrite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.mill import Mill, open_plain_mill

import tidemill as tm
from tidemill.errors import Conflict
from tidemill.intake.loader import load_file
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
def snapshot(users: tm.All) -> tm.Base:
    return {"snapshot": [{"n": len(users)}]}


@wf.task
def changes(users: tm.New) -> tm.Delta:
    return {"changes": [{"n": len(users)}]}


wf.table("snapshot", "n bigint")
wf.table("changes", "n bigint")
WORKFLOW = wf.build_spec()
FLOWS = {b.name: b for b in WORKFLOW.bindings}


@pytest.fixture
def mill(sqlite_template: Path, tmp_path: Path) -> Iterator[Mill]:
    (tmp_path / "catalog.db").write_bytes(sqlite_template.read_bytes())
    with open_plain_mill(f"sqlite:///{tmp_path / 'catalog.db'}", tmp_path / "blocks") as mill:
        mill.catalog.workflows.apply(WORKFLOW)
        yield mill


def insert(mill: Mill, directory: Path, rows: Rows, kind: BlockKind = BlockKind.DELTA) -> None:
    path = directory / "users.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    Inserter(mill.executor, load_file).insert_file("users", path, kind=kind)


def people(count: int, city: str) -> Rows:
    return [{"name": f"p{n}", "city": city} for n in range(count)]


def run_maintenance(mill: Mill) -> int:
    result = VacuumService(mill.executor).maintain_channels(["users"], Compactor(mill.executor, {}), history=100)
    assert result.problems == ()
    return len(result.major_compactions)


def read_merge_cost(mill: Mill) -> tuple[int, float]:
    return next(
        ((m.reads, m.seconds) for m in mill.catalog.channels.list_merge_costs() if m.channel == "users"), (0, 0.0)
    )


def test_reading_only_a_base_or_only_new_rows_has_no_merge_cost(mill: Mill, tmp_path: Path) -> None:
    insert(mill, tmp_path, people(20, "here"), BlockKind.BASE)
    mill.executor.run_flow(FLOWS["snapshot"], {})
    insert(mill, tmp_path, people(5, "there"))
    mill.executor.run_flow(FLOWS["changes"], {})
    assert read_merge_cost(mill) == (0, 0.0)
    mill.executor.run_flow(FLOWS["snapshot"], {})
    reads, seconds = read_merge_cost(mill)
    assert reads == 1
    assert seconds > 0


def test_a_channel_is_rewritten_once_reads_have_paid_for_it(mill: Mill, tmp_path: Path) -> None:
    insert(mill, tmp_path, people(20, "here"), BlockKind.BASE)
    insert(mill, tmp_path, people(5, "there"))
    read_count = 0
    while not run_maintenance(mill):
        assert str(assess_compaction(mill.catalog, {}, "users")).startswith(
            "not due: 5 rows wait to be merged into 20: "
        )
        mill.executor.run_flow(FLOWS["snapshot"], {})
        read_count += 1
        assert read_count < 100
    assert read_count > 1, "one read of few rows costs less than a new base"
    run = next(r for r in mill.catalog.runs.list(subject="users") if r.kind is RunKind.COMPACTION)
    assert f"compacted because {read_count} reads have paid" in mill.catalog.runs.read_log(run.id)
    assert read_merge_cost(mill) == (0, 0.0)
    assert sorted(r["city"] for r in mill.content("users")) == ["here"] * 15 + ["there"] * 5
    assert explain_compaction(mill.catalog, {}, "users") == "not due: nothing to merge"


def test_a_channel_without_readers_is_not_rewritten(mill: Mill, tmp_path: Path) -> None:
    insert(mill, tmp_path, people(20, "here"), BlockKind.BASE)
    for city in ("a", "b", "c"):
        insert(mill, tmp_path, people(20, city))
        mill.executor.run_flow(FLOWS["changes"], {})
        assert run_maintenance(mill) == 0


def test_the_cost_of_a_rewrite_is_fitted_from_past_runs(mill: Mill, tmp_path: Path) -> None:
    insert(mill, tmp_path, people(20, "here"), BlockKind.BASE)
    for city in ("a", "b", "c"):
        insert(mill, tmp_path, people(5, city))
        assert Compactor(mill.executor, {}).compact_major("users") is not None
    (model,) = [
        CostModel.from_json(m.rewrite_cost)
        for m in mill.catalog.channels.list_merge_costs()
        if m.rewrite_cost is not None
    ]
    assert model.runs == 3
    assert model.terms.start < model.prior.start, "writing a few rows without Spark takes less than a third of a second"


def test_an_empty_channel_is_not_due(mill: Mill) -> None:
    assert explain_compaction(mill.catalog, {}, "users") == "not due: nothing to merge"
    assert explain_compaction(mill.catalog, {}, "snapshot") == "not due: nothing to merge"


def test_a_requested_compaction_that_another_one_overtakes_has_nothing_to_do(
    mill: Mill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(mill, tmp_path, people(3, "Oslo"), BlockKind.BASE)
    insert(mill, tmp_path, people(1, "Rome"))
    compactor, other = Compactor(mill.executor, {}), Compactor(mill.executor, {})
    check = Compactor._check_blocks_exist

    def compact_first(self: Compactor, compaction: object) -> None:
        monkeypatch.setattr(Compactor, "_check_blocks_exist", check)
        assert other.compact_major("users") is not None
        raise Conflict("the content has a newer base")

    monkeypatch.setattr(Compactor, "_check_blocks_exist", compact_first)
    assert compactor.compact_major("users") is None
