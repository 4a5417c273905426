"""Migration of a catalog to the revision of this package; newer catalogs are rejected."""

from importlib import import_module
from uuid import uuid4

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    insert,
    inspect,
    select,
)
from sqlalchemy.exc import OperationalError, ProgrammingError

from tidemill.catalog.engine import acquire_lock, derive_write_engine, format_url, translate_errors
from tidemill.catalog.tables import clock, datasets
from tidemill.errors import CatalogError

REVISION = "0019"  # the newest in `migrations/versions`, written here so that opening need not load them

_LOCK = 0x71DE0001
_VERSION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""The table as Alembic creates it."""


def ensure_current(engine: Engine) -> None:
    """Create or upgrade the catalog; one query if it is current."""
    with translate_errors(engine):
        with engine.connect() as connection:
            current = _is_current(connection)
        if not current:
            _migrate_catalog(engine)


def check_current(engine: Engine) -> None:
    """Raise `CatalogError` unless the database is a catalog of this version."""
    with translate_errors(engine), engine.connect() as connection:
        if not _is_current(connection):
            raise CatalogError(
                f"{format_url(engine.url)} is not a catalog of this version of Tidemill; nothing was changed: check "
                "the address, or upgrade the catalog by a command in its project"
            )


def _is_current(connection: Connection) -> bool:
    try:
        return connection.execute(select(_VERSION)).scalar() == REVISION
    except (OperationalError, ProgrammingError):  # no such table: the exception differs by database
        return False


def _migrate_catalog(engine: Engine) -> None:
    with derive_write_engine(engine).begin() as connection:
        acquire_lock(connection, _LOCK)
        revision = (
            connection.execute(select(_VERSION)).scalar() if inspect(connection).has_table(_VERSION.name) else None
        )
        if revision is None:
            _create_tables(connection)
        elif revision != REVISION:  # otherwise another process was faster
            # Alembic's import takes longer than opening a catalog.
            import_module("tidemill.catalog.upgrade").upgrade_tables(connection, revision, REVISION)


def _create_tables(connection: Connection) -> None:
    """Create the tables of a new catalog directly: running the migrations takes four times as long."""
    datasets.metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(clock).values(id=1, last=0, catalog=uuid4().hex))
    _VERSION.create(connection)
    connection.execute(insert(_VERSION).values(version_num=REVISION))
