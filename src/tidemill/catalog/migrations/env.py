"""Alembic runs this file to reach the catalog; `tidemill.catalog.upgrade` hands it the open connection."""

from __future__ import annotations

from alembic import context

from tidemill.catalog.tables import metadata


def run() -> None:
    context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
    context.run_migrations()


if __name__ == "env_py":  # Alembic's name for this file; whoever else imports it has no migration to run
    run()
