"""The catalog: a SQL database that records all blocks, runs and workflows. Only this package uses SQLAlchemy."""

from tidemill.catalog.events import EventKind
from tidemill.catalog.reader import SqlCatalogReader
from tidemill.catalog.writer import SqlCatalog, open_catalog

__all__ = ["EventKind", "SqlCatalog", "SqlCatalogReader", "open_catalog"]
