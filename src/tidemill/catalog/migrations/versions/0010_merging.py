"""What readers of channels have paid for merging, and what new bases cost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "merging",
        sa.Column("channel_id", _ID, sa.ForeignKey("channels.id"), primary_key=True, autoincrement=False),
        sa.Column("reads", sa.BigInteger, nullable=False),
        sa.Column("paid", sa.Double, nullable=False),
        sa.Column("rewriting", sa.JSON),
        sa.Column("asked", sa.BigInteger, nullable=False),
    )
