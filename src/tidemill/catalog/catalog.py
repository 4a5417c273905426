"""The SQL catalog: one class for each noun, over one database."""

from dataclasses import dataclass

from sqlalchemy import func, select

from tidemill.catalog.accounts import SqlAccountCatalog
from tidemill.catalog.alarms import SqlAlarmCatalog
from tidemill.catalog.blocks import SqlBlockCatalog
from tidemill.catalog.channels import SqlChannelCatalog
from tidemill.catalog.database import Database
from tidemill.catalog.datasets import SqlDatasetCatalog
from tidemill.catalog.engine import build_engine
from tidemill.catalog.event_log import SqlEventCatalog
from tidemill.catalog.files import SqlFileCatalog
from tidemill.catalog.flows import SqlFlowCatalog
from tidemill.catalog.migrate import check_current, ensure_current
from tidemill.catalog.notices import SqlNoticeCatalog
from tidemill.catalog.runs import SqlRunCatalog
from tidemill.catalog.servers import SqlServerCatalog
from tidemill.catalog.tables import clock as clock_table
from tidemill.catalog.tables import runs
from tidemill.catalog.triggers import SqlTriggerCatalog
from tidemill.catalog.workflows import SqlWorkflowCatalog
from tidemill.ports.catalog import Catalog, Clock
from tidemill.ports.records import CatalogIdentity


@dataclass(frozen=True)
class SqlCatalog(Catalog):
    """A catalog in a SQL database. It may be used from several threads."""

    database: Database

    def close(self) -> None:
        self.database.engine.dispose()


def open_catalog(url: str, clock: Clock | None = None, *, existing: bool = False) -> SqlCatalog:
    """Open a catalog by its URL. The default clock is the database's.

    It is created or upgraded if necessary; one that must be `existing` is neither, and only read.
    """
    engine = build_engine(url, existing=existing)
    try:
        check_current(engine) if existing else ensure_current(engine)
    except BaseException:
        engine.dispose()
        raise
    return _build_catalog(Database(engine, clock))


def _build_catalog(database: Database) -> SqlCatalog:
    return SqlCatalog(
        read_time=database.read_time,
        read_identity=lambda: _read_identity(database),
        workflows=SqlWorkflowCatalog(database),
        flows=SqlFlowCatalog(database),
        channels=SqlChannelCatalog(database),
        blocks=SqlBlockCatalog(database),
        runs=SqlRunCatalog(database),
        triggers=SqlTriggerCatalog(database),
        servers=SqlServerCatalog(database),
        events=SqlEventCatalog(database),
        files=SqlFileCatalog(database),
        alarms=SqlAlarmCatalog(database),
        notices=SqlNoticeCatalog(database),
        datasets=SqlDatasetCatalog(database),
        accounts=SqlAccountCatalog(database),
        database=database,
    )


def _read_identity(database: Database) -> CatalogIdentity:
    with database.open_snapshot() as connection:
        row = connection.execute(select(clock_table.c.catalog, clock_table.c.last)).one()
        newest = connection.execute(select(func.max(runs.c.id))).scalar()
    return CatalogIdentity(row.catalog, row.last, newest or 0)
