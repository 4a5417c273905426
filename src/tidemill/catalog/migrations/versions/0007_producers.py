"""How far those who push into channels have come."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "producers",
        sa.Column("channel_id", _ID, sa.ForeignKey("channels.id"), primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )
