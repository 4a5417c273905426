"""Nothing is deleted that is not this catalog's: not beside the blocks, not with a wrong or an old catalog."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.program import Program
from tests.cli.test_doctor import problems

from tidemill.app.wiring import Tidemill


@pytest.fixture
def filled(started: Program) -> Program:
    """A project with blocks: two inserts and a run."""
    started.insert_sample()
    started.insert_sample()
    started.well("run", "report")
    return started


def blocks_of(program: Program) -> Path:
    return program.project / ".tidemill" / "blocks"


def files_in(directory: Path) -> set[str]:
    return {p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file()}


def data_in(directory: Path) -> set[str]:
    return {path for path in files_in(directory) if path.endswith(".parquet")}


def keep_house(program: Program) -> None:
    """What `up` and `work` do within seconds of their start, and every minute."""
    with Tidemill.open(program.project) as mill:
        mill.maintenance.run_maintenance()


def test_foreign_files_beside_the_blocks_stay(filled: Program) -> None:
    blocks = blocks_of(filled)
    (run,) = (p for p in (blocks / "runs").iterdir() if p.name == "1")
    foreign = [blocks / "orders.csv", blocks / "runs" / "notes.txt", run / "mine.csv", blocks / "mine" / "x.parquet"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    filled.well("gc")
    keep_house(filled)
    assert [p.read_text() for p in foreign] == ["mine"] * 4


def test_a_store_that_is_the_project_itself_keeps_it(started: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_STORAGE_URL", ".")
    started.insert_sample()
    before = files_in(started.project)
    started.well("gc")
    keep_house(started)
    assert files_in(started.project) >= {path for path in before if not path.endswith(("-wal", "-shm"))}
    assert len(data_in(started.project)) == 1


@pytest.mark.parametrize("kind", ["mistyped", "empty", "zero bytes"])
def test_a_catalog_that_knows_nothing_of_the_store_is_refused(
    filled: Program, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    before = data_in(blocks_of(filled))
    catalog = filled.project / ".tidemill" / "catalog.db"
    if kind == "mistyped":
        monkeypatch.setenv("TIDEMILL_CATALOG_URL", "sqlite:///.tidemill/catalgo.db")
    else:
        for path in catalog.parent.glob("catalog.db*"):
            path.unlink()
        if kind == "zero bytes":
            catalog.touch()
    for command in ("gc", "status", "upkeep"):
        ended = filled(command)
        assert ended.code == 8
        assert "belongs to another catalog" in ended.err
        assert "TIDEMILL_CATALOG_URL" in ended.err
        assert "tidemill adopt-store" in ended.err
    assert data_in(blocks_of(filled)) == before
    assert list(problems(filled("doctor", "--no-spark", "--json").document)) == ["store"]


def test_a_store_is_handed_over_and_nothing_is_deleted(filled: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    before = data_in(blocks_of(filled))
    monkeypatch.setenv("TIDEMILL_CATALOG_URL", "sqlite:///.tidemill/other.db")
    assert filled("status").code == 8
    said = filled.well("adopt-store", "--yes").out
    assert said.startswith("the block store belonged to catalog ")
    assert said.endswith("; it is this catalog's now\n")
    filled.well("apply", "--yes")
    filled.insert_sample()
    filled.well("gc", "--grace", "0s")
    keep_house(filled)
    assert data_in(blocks_of(filled)) > before
    monkeypatch.delenv("TIDEMILL_CATALOG_URL")
    assert filled("status").code == 8
    assert len(filled.json("adopt-store")["before"]) == 32
    assert filled.json("gc", "--scan", "--grace", "0s")["scan"]["unknown"] == 1
    assert data_in(blocks_of(filled)) > before


def test_an_older_catalog_that_was_restored_is_refused(filled: Program) -> None:
    catalog = filled.project / ".tidemill" / "catalog.db"
    backup = catalog.with_name("backup.db")
    shutil.copy(catalog, backup)
    filled.insert_sample()
    filled.well("run", "report")
    newer = data_in(blocks_of(filled))
    for path in catalog.parent.glob("catalog.db*"):
        path.unlink()
    shutil.copy(backup, catalog)
    ended = filled("gc")
    assert ended.code == 8
    assert "older than" in ended.err
    assert "restore" in ended.err
    assert data_in(blocks_of(filled)) == newer
    assert "older than" in problems(filled("doctor", "--no-spark", "--json").document)["store"]
