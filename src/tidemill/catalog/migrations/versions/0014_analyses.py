"""The catalog remembers what Spark's analyser said of queries and functions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "analyses",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("answer", sa.JSON, nullable=False),
    )
