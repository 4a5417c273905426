"""Blocks that are pinned, and what they keep from being collected."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("blocks", sa.Column("pinned", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_table(
        "holds",
        sa.Column("pin", _ID, sa.ForeignKey("blocks.id"), primary_key=True, autoincrement=False),
        sa.Column("block_id", _ID, sa.ForeignKey("blocks.id"), primary_key=True, autoincrement=False),
    )
    op.create_index("holds_block", "holds", ["block_id"])
