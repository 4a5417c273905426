"""The catalog: a SQL database that records all blocks, runs and workflows. Only this package uses SQLAlchemy."""

from tidemill.catalog.catalog import SqlCatalog, open_catalog
from tidemill.catalog.events import EventKind

__all__ = ["EventKind", "SqlCatalog", "open_catalog"]
