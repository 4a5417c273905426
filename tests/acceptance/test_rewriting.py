"""Channels are rewritten because they are read: only whole contents count, and what was paid decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.mill import Mill, opened

import tidemill as tm
from tidemill.intake import load_file
from tidemill.model.block import Kind
from tidemill.model.change import Rows
from tidemill.model.run import RunKind
from tidemill.planner.cost import Learnt
from tidemill.runtime.maintenance.compaction import Compactor, said, verdict
from tidemill.runtime.maintenance.vacuum import Janitor
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
        found.catalog.apply(WORKFLOW)
        yield found


def insert(mill: Mill, directory: Path, rows: Rows, kind: Kind = Kind.DELTA) -> None:
    path = directory / "users.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    Inserter(mill.executor, load_file).file("users", path, kind=kind)


def people(count: int, city: str) -> Rows:
    return [{"name": f"p{n}", "city": city} for n in range(count)]


def tidied(mill: Mill) -> int:
    done = Janitor(mill.executor).tidy(["users"], Compactor(mill.executor, {}), history=100)
    assert done.problems == ()
    return len(done.rebased)


def paid(mill: Mill) -> tuple[int, float]:
    return next(((m.reads, m.paid) for m in mill.catalog.merging() if m.channel == "users"), (0, 0.0))


def test_reading_a_base_alone_or_what_is_new_costs_nothing(mill: Mill, tmp_path: Path) -> None:
    insert(mill, tmp_path, people(20, "here"), Kind.BASE)
    mill.executor.flow(FLOWS["whole"], {})
    insert(mill, tmp_path, people(5, "there"))
    mill.executor.flow(FLOWS["parts"], {})
    assert paid(mill) == (0, 0.0)
    mill.executor.flow(FLOWS["whole"], {})
    reads, seconds = paid(mill)
    assert reads == 1
    assert seconds > 0


def test_what_is_read_is_rewritten_once_readers_have_paid_for_it(mill: Mill, tmp_path: Path) -> None:
    insert(mill, tmp_path, people(20, "here"), Kind.BASE)
    insert(mill, tmp_path, people(5, "there"))
    read = 0
    while not tidied(mill):
        assert str(verdict(mill.catalog, {}, "users")).startswith("not due: 5 rows wait to be merged into 20: ")
        mill.executor.flow(FLOWS["whole"], {})
        read += 1
        assert read < 100
    assert read > 1, "one read of little costs less than a new base"
    run = next(r for r in mill.catalog.runs(subject="users") if r.kind is RunKind.COMPACTION)
    assert f"compacted because {read} reads have paid" in mill.catalog.log(run.id)
    assert paid(mill) == (0, 0.0)
    assert sorted(r["city"] for r in mill.content("users")) == ["here"] * 15 + ["there"] * 5
    assert said(mill.catalog, {}, "users") == "not due: nothing to merge"


def test_what_nobody_reads_is_left_alone(mill: Mill, tmp_path: Path) -> None:
    insert(mill, tmp_path, people(20, "here"), Kind.BASE)
    for city in ("a", "b", "c"):
        insert(mill, tmp_path, people(20, city))
        mill.executor.flow(FLOWS["parts"], {})
        assert tidied(mill) == 0


def test_the_price_of_a_base_is_learnt(mill: Mill, tmp_path: Path) -> None:
    insert(mill, tmp_path, people(20, "here"), Kind.BASE)
    for city in ("a", "b", "c"):
        insert(mill, tmp_path, people(5, city))
        assert Compactor(mill.executor, {}).rebase("users") is not None
    (known,) = [Learnt.from_json(m.rewriting) for m in mill.catalog.merging() if m.rewriting is not None]
    assert known.runs == 3
    assert known.terms.start < known.guess.start, "writing a few rows without Spark takes no third of a second"


def test_of_what_was_never_written_nothing_is_said(mill: Mill) -> None:
    assert said(mill.catalog, {}, "users") == "not due: nothing to merge"
    assert said(mill.catalog, {}, "whole") == "not due: nothing to merge"
