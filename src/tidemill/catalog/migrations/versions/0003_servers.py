"""Triggers and firings, servers and the leases of what one does for all, notices; several inserts can share a block."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("workflows", sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("workflows", sa.Column("priority", sa.Integer, nullable=False, server_default="0"))
    op.add_column("workflows", sa.Column("document", sa.JSON))
    _move_insert_keys()
    op.create_table(
        "triggers",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("binding_id", _ID, sa.ForeignKey("bindings.id"), nullable=False),
        sa.Column("root", sa.Integer, nullable=False),
        sa.Column("path", sa.JSON, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("channel", sa.Text),
        sa.Column("flow", sa.Text),
        sa.Column("reached", sa.Text),
        sa.Column("least_rows", sa.BigInteger),
        sa.Column("least_bytes", sa.BigInteger),
        sa.Column("age", sa.Double),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("since", sa.Double),
        sa.Column("due", sa.Double),
        sa.Column("missed", sa.BigInteger, nullable=False),
        sa.Column("fired", sa.Double),
        sa.Column("paused", sa.Boolean, nullable=False),
    )
    op.create_index("triggers_place", "triggers", ["binding_id", "root", "id"])
    op.create_index("triggers_channel", "triggers", ["channel"])
    op.create_index("triggers_flow", "triggers", ["flow", "reached"])
    armed = sa.and_(sa.column("due").is_not(None), sa.column("paused").is_(False))
    op.create_index("triggers_due", "triggers", ["due"], sqlite_where=armed, postgresql_where=armed)
    op.create_table(
        "firings",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("flow", sa.Text, nullable=False),
        sa.Column("trigger", sa.JSON, nullable=False),
        sa.Column("missed", sa.BigInteger, nullable=False),
        sa.Column("run_id", _ID, nullable=False),
    )
    op.create_index("firings_flow", "firings", ["flow", "id"])
    op.create_index("firings_run", "firings", ["run_id"])
    op.create_table(
        "leases",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
    )
    op.create_table(
        "servers",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("tracks", sa.Integer, nullable=False),
        sa.Column("started", sa.Double, nullable=False),
        sa.Column("seen", sa.Double, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
    )
    op.create_table(
        "places",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("event", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "troubles",
        sa.Column("flow", sa.Text, primary_key=True),
        sa.Column("since", sa.Double, nullable=False),
    )
    op.create_table(
        "notices",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("receiver", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due", sa.Double),
        sa.Column("sent", sa.Double),
        sa.Column("error", sa.Text),
    )
    op.create_index("notices_due", "notices", ["due"])
    op.create_index("notices_sent", "notices", ["sent"])


def _move_insert_keys() -> None:
    op.create_table(
        "insert_keys",
        sa.Column("channel_id", _ID, sa.ForeignKey("channels.id"), primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("block_id", _ID, sa.ForeignKey("blocks.id"), nullable=False),
    )
    op.create_index("insert_keys_block", "insert_keys", ["block_id"])
    op.execute(
        "INSERT INTO insert_keys (channel_id, key, block_id) "
        "SELECT channel_id, insert_key, id FROM blocks WHERE insert_key IS NOT NULL"
    )
    op.drop_index("blocks_insert_key", "blocks")
    op.drop_column("blocks", "insert_key")
