"""Runs count the attempts that ended for no fault of their tasks'."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("runs", sa.Column("lost", sa.Integer, nullable=False, server_default="0"))
