"""Datasets that are never evicted, and what is still known of hours that were forgotten."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("datasets", sa.Column("pinned", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_table(
        "tallies",
        sa.Column("begin", sa.Double, primary_key=True),
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("workflow", sa.Text, primary_key=True),
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("submissions", sa.BigInteger, nullable=False),
        sa.Column("actions", sa.BigInteger, nullable=False),
        sa.Column("computed", sa.BigInteger, nullable=False),
        sa.Column("hits", sa.BigInteger, nullable=False),
        sa.Column("refreshes", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("saved", sa.Double, nullable=False),
    )
