"""Upgrade of the tables of an older catalog, by Alembic."""

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from tidemill.catalog.engine import format_url
from tidemill.errors import CatalogError


def upgrade_tables(connection: Connection, revision: str, newest: str) -> None:
    """Run the migrations from one revision to the newest; raise `CatalogError` if the revision is newer than that."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "tidemill.catalog:migrations")
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision not in known:
        raise CatalogError(
            f"the catalog {format_url(connection.engine.url)} was written by a newer Tidemill: it is at revision "
            f"{revision}, and this version knows revisions up to {newest}; upgrade the tidemill package. Nothing was "
            "changed"
        )
    command.upgrade(config, newest)
