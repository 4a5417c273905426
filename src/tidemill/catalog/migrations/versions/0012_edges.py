"""Blocks say how far event time was settled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("blocks", sa.Column("edge", sa.BigInteger))
