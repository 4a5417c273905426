"""Database engines: dialect-neutral read and write transactions, locks, and translation of errors."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from tidemill.errors import CatalogError, Conflict

_BUSY_SECONDS = 30  # seconds to wait for another writer of a SQLite file
_CONNECT_SECONDS = 10  # seconds to wait for a PostgreSQL server
_BEGIN_OPTION = "tidemill_begin"
_SQLITE = "sqlite"
_POSTGRESQL = "postgresql"
_COLLISIONS = frozenset({"40001", "40P01"})  # serialization failure, deadlock


def build_engine(address: str, *, existing: bool = False) -> Engine:
    """An engine for a catalog's URL. It does not connect yet. A SQLite file that must exist is not written to."""
    url = _parse_url(address)
    if url.get_backend_name() == _SQLITE:
        return _build_sqlite_engine(_to_read_only_url(url) if existing else url)
    # A restarted server leaves dead connections in the pool; the ping detects them.
    return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": _CONNECT_SECONDS})


def _parse_url(address: str) -> URL:
    try:
        url = make_url(address)
    except ArgumentError as error:
        raise CatalogError(f"[catalog] url is not the address of a catalog; {_EXPECTED}") from error
    match url.get_backend_name():
        case "postgresql" | "postgres":
            return url.set(drivername=f"{_POSTGRESQL}+psycopg")
        case "sqlite" if url.database and url.database != ":memory:":
            return url
        case _:
            raise CatalogError(f"{format_url(url)} cannot hold a catalog; {_EXPECTED}")


def _to_read_only_url(url: URL) -> URL:
    database = url.database or ""
    path = database if database.startswith("file:") else Path(database).absolute().as_uri()
    return url.set(database=path).update_query_dict({"mode": "ro", "uri": "true"})


_EXPECTED = "write sqlite:///path/to/catalog.db or postgresql://user@host/database"


def format_url(url: URL) -> str:
    """A URL without its password, for messages."""
    return url.render_as_string(hide_password=True)


def _build_sqlite_engine(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS})
    event.listen(engine, "do_connect", lambda *_: _create_private_file(url.database or ""))
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _create_private_file(path: str) -> None:
    """Create a new catalog readable by its owner alone; SQLite gives its log and its index the same permissions."""
    if not path.startswith("file:"):
        with suppress(OSError):  # SQLite reports why the file cannot be used
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin transactions itself
    _enable_wal(connection)
    for pragma in ("synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _enable_wal(connection: Any) -> None:
    """Switch the file to a write-ahead log; the setting is persistent, so only the first connection changes it.

    SQLite fails at once if another connection is writing. `BEGIN IMMEDIATE` waits for the write lock instead.
    """
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN_OPTION, "BEGIN"))


def derive_read_engine(engine: Engine) -> Engine:
    """The same pool; all statements of a transaction see one snapshot of the catalog."""
    if engine.dialect.name == _SQLITE:
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def derive_write_engine(engine: Engine) -> Engine:
    """The same pool. On SQLite a transaction takes the write lock at once: upgrading a read lock may fail."""
    return engine.execution_options(**{_BEGIN_OPTION: "BEGIN IMMEDIATE"})


def is_single_writer(engine: Engine) -> bool:
    """Whether the database allows only one writer at a time."""
    return engine.dialect.name == _SQLITE


def acquire_lock(connection: Connection, lock: int) -> None:
    """Wait until no other transaction holds `lock`. A writer on SQLite is exclusive anyway."""
    if connection.dialect.name == _POSTGRESQL:
        connection.execute(select(func.pg_advisory_xact_lock(lock)))


def read_database_time(connection: Connection) -> float:
    """Seconds by the clock that all users of the catalog share: a SQLite file is used on one machine only."""
    if connection.dialect.name == _POSTGRESQL:
        return float(connection.execute(_TIME).scalar_one())
    return time.time()


_TIME = text("SELECT extract(epoch FROM clock_timestamp())")


def is_collision(error: DBAPIError) -> bool:
    """Whether a retry may succeed. Unique values are looked up first, so a violation means a concurrent insert."""
    return isinstance(error, IntegrityError) or getattr(error.orig, "sqlstate", None) in _COLLISIONS


@contextmanager
def translate_errors(engine: Engine) -> Iterator[None]:
    """Translate errors of the database to Tidemill's exceptions."""
    try:
        yield
    except IntegrityError as error:
        raise Conflict(
            f"another process changed the catalog at the same time: {_format_reason(error)}; try again"
        ) from error
    except SQLAlchemyError as error:
        raise CatalogError(
            f"the catalog {format_url(engine.url)} cannot be used: {_format_reason(error)}; "
            "check that the address is right, "
            "that the database exists and is intact, and that no other program keeps it locked"
        ) from error


def _format_reason(error: SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return " ".join(str(cause).partition("DETAIL:")[0].split())  # PostgreSQL's details contain values
