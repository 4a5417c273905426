"""Maintenance deletes only files that its catalog owns: no foreign files, and none with a wrong or an old catalog."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.program import Program
from tests.cli.test_doctor import find_problems

from tidemill.app.wiring import Tidemill


@pytest.fixture
def filled_project(starter: Program) -> Program:
    """A project with blocks: two inserts and a run."""
    starter.insert_sample()
    starter.insert_sample()
    starter.run_ok("run", "report")
    return starter


def get_block_directory(program: Program) -> Path:
    return program.project / ".tidemill" / "blocks"


def list_files(directory: Path) -> set[str]:
    return {p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file()}


def list_data_files(directory: Path) -> set[str]:
    return {path for path in list_files(directory) if path.endswith(".parquet")}


def run_maintenance(program: Program) -> None:
    """The maintenance that `up` and `work` run soon after their start and then every minute."""
    with Tidemill.open(program.project) as mill:
        mill.maintenance.run_maintenance()


def test_foreign_files_beside_the_blocks_are_not_deleted(filled_project: Program) -> None:
    blocks = get_block_directory(filled_project)
    (run,) = (p for p in (blocks / "runs").iterdir() if p.name == "1")
    foreign = [blocks / "orders.csv", blocks / "runs" / "notes.txt", run / "mine.csv", blocks / "mine" / "x.parquet"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    filled_project.run_ok("gc")
    run_maintenance(filled_project)
    assert [p.read_text() for p in foreign] == ["mine"] * 4


def test_a_store_in_the_project_directory_deletes_no_project_file(
    starter: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_STORAGE_URL", ".")
    starter.insert_sample()
    before = list_files(starter.project)
    starter.run_ok("gc")
    run_maintenance(starter)
    assert list_files(starter.project) >= {path for path in before if not path.endswith(("-wal", "-shm"))}
    assert len(list_data_files(starter.project)) == 1


@pytest.mark.parametrize("kind", ["mistyped", "empty", "zero bytes"])
def test_a_catalog_that_does_not_own_the_store_is_rejected(
    filled_project: Program, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    before = list_data_files(get_block_directory(filled_project))
    catalog = filled_project.project / ".tidemill" / "catalog.db"
    if kind == "mistyped":
        monkeypatch.setenv("TIDEMILL_CATALOG_URL", "sqlite:///.tidemill/catalgo.db")
    else:
        for path in catalog.parent.glob("catalog.db*"):
            path.unlink()
        if kind == "zero bytes":
            catalog.touch()
    for command in ("gc", "status", "maintenance"):
        result = filled_project(command)
        assert result.code == 8
        assert "belongs to another catalog" in result.err
        assert "TIDEMILL_CATALOG_URL" in result.err
        assert "tidemill adopt-store" in result.err
    assert list_data_files(get_block_directory(filled_project)) == before
    assert list(find_problems(filled_project("doctor", "--no-spark", "--json").document)) == ["store"]


def test_adopting_a_store_deletes_nothing(filled_project: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list_data_files(get_block_directory(filled_project))
    monkeypatch.setenv("TIDEMILL_CATALOG_URL", "sqlite:///.tidemill/other.db")
    assert filled_project("status").code == 8
    out = filled_project.run_ok("adopt-store", "--yes").out
    assert out.startswith("the block store belonged to catalog ")
    assert out.endswith("; it is this catalog's now\n")
    filled_project.run_ok("apply", "--yes")
    filled_project.insert_sample()
    filled_project.run_ok("gc", "--grace", "0s")
    run_maintenance(filled_project)
    assert list_data_files(get_block_directory(filled_project)) > before
    monkeypatch.delenv("TIDEMILL_CATALOG_URL")
    assert filled_project("status").code == 8
    assert len(filled_project.json("adopt-store")["before"]) == 32
    assert filled_project.json("gc", "--scan", "--grace", "0s")["scan"]["unknown"] == 1
    assert list_data_files(get_block_directory(filled_project)) > before


def test_a_restored_older_catalog_is_rejected(filled_project: Program) -> None:
    catalog = filled_project.project / ".tidemill" / "catalog.db"
    backup = catalog.with_name("backup.db")
    shutil.copy(catalog, backup)
    filled_project.insert_sample()
    filled_project.run_ok("run", "report")
    newer = list_data_files(get_block_directory(filled_project))
    for path in catalog.parent.glob("catalog.db*"):
        path.unlink()
    shutil.copy(backup, catalog)
    result = filled_project("gc")
    assert result.code == 8
    assert "older than" in result.err
    assert "restore" in result.err
    assert list_data_files(get_block_directory(filled_project)) == newer
    assert "older than" in find_problems(filled_project("doctor", "--no-spark", "--json").document)["store"]
