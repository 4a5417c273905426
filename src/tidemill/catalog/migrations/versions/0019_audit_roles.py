"""The role that a user had when a change was audited."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("audit", sa.Column("role", sa.Text()))
