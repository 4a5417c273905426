"""Folded deltas stand at the place of the last delta they were made of; history can be forgotten."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("channels", sa.Column("forgotten", sa.BigInteger, nullable=False, server_default="0"))
    op.drop_index("blocks_place", "blocks")
    op.create_index("blocks_place", "blocks", ["channel_id", "seq", "kind", "since"], unique=True)
    _unique_where("blocks_slot", "origin != 'compaction'")
    _unique_where("blocks_base", "kind = 'base'")


def _unique_where(name: str, where: str) -> None:
    condition = sa.text(where)
    columns = ["channel_id", "seq"]
    op.create_index(name, "blocks", columns, unique=True, sqlite_where=condition, postgresql_where=condition)
