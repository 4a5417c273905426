"""The catalog: a SQL database that says which blocks there are. SQLAlchemy lives here alone."""

from tidemill.catalog.events import EventKind
from tidemill.catalog.reader import SqlCatalogReader
from tidemill.catalog.writer import SqlCatalog, open_catalog

__all__ = ["EventKind", "SqlCatalog", "SqlCatalogReader", "open_catalog"]
