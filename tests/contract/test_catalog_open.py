"""Opening, creating, migrating and rejecting catalogs."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text
from tests.catalog.driver import WORKFLOW
from tests.marks import long

from tidemill.catalog import engine as engines
from tidemill.catalog import open_catalog
from tidemill.catalog.engine import build_engine
from tidemill.catalog.migrate import REVISION
from tidemill.catalog.tables import metadata
from tidemill.errors import CatalogError
from tidemill.model.run import RunKind
from tidemill.model.store import GracePeriods


@pytest.fixture
def engine(empty_url: str):
    engine = build_engine(empty_url)
    yield engine
    engine.dispose()


def test_migrations_create_the_tables(engine: Engine, backend: str) -> None:
    """The same tables as a new catalog has; Alembic does not compare the conditions of indexes."""
    migrate(engine, REVISION)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    conditions = _read_index_conditions(engine, backend)
    metadata.drop_all(engine)
    with engine.begin() as connection:
        metadata.create_all(connection, checkfirst=False)
    assert conditions == _read_index_conditions(engine, backend)
    assert len(conditions) == 8


def test_a_new_catalog_equals_a_migrated_one(empty_url: str, engine: Engine) -> None:
    open_catalog(empty_url).close()
    created = _read_everything(engine)
    metadata.drop_all(engine)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE alembic_version"))
    migrate(engine, REVISION)
    assert created == _read_everything(engine)


def test_a_catalog_that_is_opened_as_existing_is_neither_created_nor_upgraded(empty_url: str, engine: Engine) -> None:
    with pytest.raises(CatalogError, match="nothing was changed|cannot be used"):
        open_catalog(empty_url, existing=True)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE other (id INTEGER)"))
    before = _read_everything(engine)
    with pytest.raises(CatalogError, match="nothing was changed"):
        open_catalog(empty_url, existing=True)
    assert _read_everything(engine) == before
    metadata.drop_all(engine)
    migrate(engine, "0018")
    before = _read_everything(engine)
    with pytest.raises(CatalogError, match="nothing was changed"):
        open_catalog(empty_url, existing=True)
    assert _read_everything(engine) == before
    migrate(engine, REVISION)
    catalog = open_catalog(empty_url, existing=True)
    assert catalog.runs.list() == []
    catalog.close()


def migrate(engine: Engine, revision: str) -> None:
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", "tidemill.catalog:migrations")
        command.upgrade(config, revision)


def _read_everything(engine: Engine) -> dict[str, object]:
    """All tables by name, with their sorted columns, indexes and keys, and their rows."""
    with engine.connect() as connection:
        inspector = inspect(connection)
        return {
            table: (
                sorted(str(c | {"type": str(c["type"])}) for c in inspector.get_columns(table)),
                sorted(str(i | {"dialect_options": None}) for i in inspector.get_indexes(table)),
                sorted(map(str, inspector.get_foreign_keys(table))),
                str(inspector.get_pk_constraint(table)),
                connection.execute(text(f'SELECT {"id, last" if table == "clock" else "*"} FROM "{table}"')).all(),
            )
            for table in inspector.get_table_names()
        }


def test_each_catalog_has_a_permanent_id(empty_url: str, tmp_path: Path) -> None:
    ids = []
    for url in (empty_url, empty_url, f"sqlite:///{tmp_path / 'other.db'}"):
        catalog = open_catalog(url)
        ids.append(catalog.read_identity().id)
        catalog.close()
    assert ids[0] == ids[1] != ids[2]
    assert all(len(catalog_id) == 32 for catalog_id in ids)


def test_migration_assigns_an_id_and_marks_files_of_failed_attempts(empty_url: str, engine: Engine) -> None:
    migrate(engine, "0012")
    with engine.begin() as connection:
        for run, state in enumerate(("failed", "killed", "finished", "running"), start=1):
            values = f"{run}, 'insert', 'a', '{state}', 1, 1, {run}, 0, '{{}}', 'runs/{run}/{run}'"
            columns = "id, kind, subject, state, attempt, attempts, fence, created, stats, directory"
            connection.execute(text(f"INSERT INTO runs ({columns}) VALUES ({values})"))
    catalog = open_catalog(empty_url)
    assert len(catalog.read_identity().id) == 32
    assert catalog.read_identity().newest_run == 4
    assert catalog.files.list_marked() == {"runs/1/1", "runs/2/2"}
    assert catalog.files.list_due_removals(GracePeriods(), 10) == []
    catalog.close()


def _read_index_conditions(engine: Engine, backend: str) -> dict[str, str]:
    with engine.connect() as connection:
        indexes = [i for table in metadata.tables for i in inspect(connection).get_indexes(table)]
    options = ((i["name"], i["dialect_options"].get(f"{backend}_where")) for i in indexes)
    return {name: str(where).replace("(", "").replace(")", "") for name, where in options if where is not None}


def test_an_older_catalog_is_migrated(empty_url: str, engine: Engine) -> None:
    migrate(engine, "0001")
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO workflows (name, applied) VALUES ('w', 0)"))
    catalog = open_catalog(empty_url)
    catalog.workflows.apply(WORKFLOW)
    assert catalog.channels.read("a").head.seq == 0
    catalog.close()
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_revision_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", "tidemill.catalog:migrations")
    assert ScriptDirectory.from_config(config).get_current_head() == REVISION


def test_opening_a_current_catalog_takes_one_query(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_catalog(url).close()
    monkeypatch.setattr("tidemill.catalog.migrate._migrate_catalog", lambda _: pytest.fail("migrated again"))
    open_catalog(url).close()


def test_a_newer_catalog_is_rejected_and_unchanged(empty_url: str, engine: Engine) -> None:
    open_catalog(empty_url).close()
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0999'"))
    with pytest.raises(CatalogError, match=f"newer Tidemill.*0999.*{REVISION}.*upgrade"):
        open_catalog(empty_url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "0999"


def test_a_failed_migration_changes_nothing(empty_url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE events (id INTEGER)"))
    with pytest.raises(CatalogError, match="events"):
        open_catalog(empty_url)
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["events"]


def test_concurrent_first_opens_by_threads_all_succeed(empty_url: str) -> None:
    with ThreadPoolExecutor(6) as pool:
        for catalog in pool.map(lambda _: open_catalog(empty_url), range(6)):
            assert catalog.channels.list() == []
            catalog.close()


@pytest.mark.parametrize("backend", [long("sqlite"), "postgresql"])
def test_concurrent_first_opens_by_processes_all_succeed(empty_url: str) -> None:
    program = "import sys; from tidemill.catalog import open_catalog; print(open_catalog(sys.argv[1]).channels.list())"
    command = [sys.executable, "-c", program, empty_url]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [p.communicate()[0].strip() for p in started] == ["[]"] * 2


def test_a_first_open_waits_for_a_concurrent_one(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    class CommitsOther(sqlite3.Connection):
        def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
            if statement == "BEGIN IMMEDIATE":
                other.execute("COMMIT")
            return super().execute(statement, *parameters)

    first = sqlite3.connect(tmp_path / "catalog.db", factory=CommitsOther)
    engines._prepare_sqlite(first, None)
    assert first.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert not other.in_transaction, "the other transaction has ended"
    first.close()
    other.close()


def test_a_file_that_is_not_a_database_is_reported(tmp_path: Path) -> None:
    damaged = tmp_path / "catalog.db"
    damaged.write_bytes(b"this is not a database" * 100)
    with pytest.raises(CatalogError, match="not a database"):
        open_catalog(f"sqlite:///{damaged}")


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"unable to open.*check that the address is right"):
        open_catalog(f"sqlite:///{tmp_path}/missing/catalog.db")


def test_an_unreachable_server_is_reported_without_the_password() -> None:
    with pytest.raises(CatalogError, match="cannot be used") as caught:
        open_catalog("postgresql://me:secret@127.0.0.1:1/tidemill")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("address", ["nonsense", "mysql://localhost/x", "sqlite://", "sqlite:///:memory:", ""])
def test_an_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(CatalogError, match="write sqlite:///"):
        open_catalog(address)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_postgresql_scheme_selects_psycopg(scheme: str) -> None:
    engine = build_engine(f"{scheme}://me@localhost/x")
    assert engine.url.drivername == "postgresql+psycopg"
    engine.dispose()


def test_sqlite_is_configured_for_durability(tmp_path: Path) -> None:
    engine = build_engine(f"sqlite:///{tmp_path / 'catalog.db'}")
    with engine.connect() as connection:
        settings = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        values = [connection.execute(text(f"PRAGMA {setting}")).scalar() for setting in settings]
    engine.dispose()
    assert values == ["wal", 2, 1, 30_000]


def test_a_database_error_is_raised_as_a_catalog_error(empty_url: str, engine: Engine) -> None:
    catalog = open_catalog(empty_url)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE logs"))
    catalog.workflows.apply(WORKFLOW)
    run = catalog.runs.request(RunKind.FLOW, "copy")
    with pytest.raises(CatalogError, match=r"cannot be used: .*logs"):
        catalog.runs.read_log(run.id)
    catalog.close()
