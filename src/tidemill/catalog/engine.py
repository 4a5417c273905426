"""Connections: one dialect-neutral way to read and to write, and to say what went wrong."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from tidemill.errors import CatalogError, Conflict

_BUSY = 30  # seconds to wait for another writer of a SQLite file
_CONNECT = 10  # seconds to wait for a PostgreSQL server
_BEGIN = "tidemill_begin"
_SQLITE = "sqlite"
_POSTGRESQL = "postgresql"
_COLLISIONS = frozenset({"40001", "40P01"})  # serialization failure, deadlock


def build_engine(address: str) -> Engine:
    """An engine for a catalog's URL. Connects to nothing yet."""
    url = _parse_url(address)
    if url.get_backend_name() == _SQLITE:
        return _build_sqlite_engine(url)
    # A server that was restarted leaves dead connections in the pool; the ping finds them.
    return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": _CONNECT})


def _parse_url(address: str) -> URL:
    try:
        url = make_url(address)
    except ArgumentError as error:
        raise CatalogError(f"{address!r} is not the address of a catalog; {_EXPECTED}") from error
    match url.get_backend_name():
        case "postgresql" | "postgres":
            return url.set(drivername=f"{_POSTGRESQL}+psycopg")
        case "sqlite" if url.database and url.database != ":memory:":
            return url
        case _:
            raise CatalogError(f"{format_url(url)} cannot hold a catalog; {_EXPECTED}")


_EXPECTED = "write sqlite:///path/to/catalog.db or postgresql://user@host/database"


def format_url(url: URL) -> str:
    """A URL as messages may print it."""
    return url.render_as_string(hide_password=True)


def _build_sqlite_engine(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _BUSY})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # or the driver would begin transactions when it sees fit
    _enable_wal(connection)
    for pragma in ("synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _enable_wal(connection: Any) -> None:
    """Let the file have a write-ahead log, which it keeps: only who comes first has something to do.

    SQLite gives this up at once if somebody else is writing; for leave to write it waits.
    """
    until = time.monotonic() + _BUSY
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))


def derive_read_engine(engine: Engine) -> Engine:
    """The same pool; all statements of a transaction see the catalog at one moment."""
    if engine.dialect.name == _SQLITE:
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def derive_write_engine(engine: Engine) -> Engine:
    """The same pool. SQLite takes its write lock at once: a reader that turns writer may find itself too late."""
    return engine.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})


def is_single_writer(engine: Engine) -> bool:
    """Does the database take one writer at a time?"""
    return engine.dialect.name == _SQLITE


def acquire_lock(connection: Connection, lock: int) -> None:
    """Wait until no other transaction holds `lock`. A writer of SQLite is alone already."""
    if connection.dialect.name == _POSTGRESQL:
        connection.execute(select(func.pg_advisory_xact_lock(lock)))


def read_database_time(connection: Connection) -> float:
    """Seconds since the epoch, by the one clock that all who share the catalog have in common.

    On PostgreSQL that is the server's; a SQLite file has one machine's users.
    """
    if connection.dialect.name == _POSTGRESQL:
        return float(connection.execute(_TIME).scalar_one())
    return time.time()


_TIME = text("SELECT extract(epoch FROM clock_timestamp())")


def is_collision(error: DBAPIError) -> bool:
    """Would the same transaction meet another world if it were tried again?

    Whatever a unique index guards is looked up first, so a violation means that somebody was faster.
    """
    return isinstance(error, IntegrityError) or getattr(error.orig, "sqlstate", None) in _COLLISIONS


@contextmanager
def translate_errors(engine: Engine) -> Iterator[None]:
    """Errors of the database, in Tidemill's words."""
    try:
        yield
    except IntegrityError as error:
        raise Conflict(
            f"somebody else changed the catalog at the same time: {_format_reason(error)}; try again"
        ) from error
    except SQLAlchemyError as error:
        raise CatalogError(
            f"the catalog {format_url(engine.url)} cannot be used: {_format_reason(error)}; "
            "check that the address is right, "
            "that the database is there and sound, and that no other program keeps it locked"
        ) from error


def _format_reason(error: SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return " ".join(str(cause).split())
