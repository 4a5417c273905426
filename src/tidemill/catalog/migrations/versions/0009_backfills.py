"""Runs that load history; since when runs are due, and when they were last asked for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("runs", sa.Column("backfill", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("runs", sa.Column("due", sa.Double))
    op.add_column("runs", sa.Column("asked", sa.Double))
