"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _clock()
    _declarations()
    _runs()
    _blocks()
    _consumption()
    _history()


def _clock() -> None:
    clock = op.create_table(
        "clock",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("last", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(clock, [{"id": 1, "last": 0}])


def _declarations() -> None:
    op.create_table(
        "workflows",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("applied", sa.Double, nullable=False),
    )
    op.create_table(
        "channels",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("workflow", sa.Text, sa.ForeignKey("workflows.name"), nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("declared", sa.Text),
        sa.Column("schema", sa.Text),
        sa.Column("updates", sa.Text, nullable=False),
        sa.Column("next_seq", sa.BigInteger, nullable=False),
        sa.Column("head_seq", sa.BigInteger, nullable=False),
        sa.Column("head_reached", sa.Text, nullable=False),
        sa.Column("head_content", sa.Text, nullable=False),
        sa.Column("blocks", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    op.create_index("channels_name", "channels", ["name"], unique=True)
    op.create_table(
        "bindings",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("workflow", sa.Text, sa.ForeignKey("workflows.name"), nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
    )
    op.create_index("bindings_name", "bindings", ["name"], unique=True)


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("lease_until", sa.Double),
        sa.Column("not_before", sa.Double),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("started", sa.Double),
        sa.Column("finished", sa.Double),
        sa.Column("error", sa.Text),
        sa.Column("stats", sa.JSON, nullable=False),
        sa.Column("directory", sa.Text),
    )
    op.create_index("runs_state", "runs", ["state", "id"])
    op.create_index("runs_subject", "runs", ["subject", "id"])
    op.create_index("runs_subject_state", "runs", ["subject", "state", "id"])
    _partial_index("runs_one_running_per_flow", "runs", ["subject"], "kind = 'flow' AND state = 'running'", unique=True)


def _blocks() -> None:
    op.create_table(
        "blocks",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("channel_id", _ID, sa.ForeignKey("channels.id"), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("since", sa.BigInteger),
        sa.Column("schema", sa.Text),
        sa.Column("updates", sa.Text, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("reached", sa.Text, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("run_id", _ID, sa.ForeignKey("runs.id")),
        sa.Column("task", sa.Text),
        sa.Column("visible", sa.BigInteger),
        sa.Column("insert_key", sa.Text),
        sa.Column("collected", sa.BigInteger),
    )
    op.create_index("blocks_place", "blocks", ["channel_id", "seq", "kind"], unique=True)
    op.create_index("blocks_insert_key", "blocks", ["channel_id", "insert_key"], unique=True)
    op.create_index("blocks_visible", "blocks", ["channel_id", "visible"])
    op.create_index("blocks_run", "blocks", ["run_id"])
    _partial_index("blocks_reserved", "blocks", ["channel_id", "seq"], "state = 'reserved'")
    _partial_index("blocks_readable_bases", "blocks", ["channel_id", "seq"], "kind = 'base' AND state = 'filled'")
    _partial_index("blocks_to_purge", "blocks", ["collected"], "collected IS NOT NULL")
    op.create_table(
        "files",
        sa.Column("block_id", _ID, sa.ForeignKey("blocks.id"), primary_key=True, autoincrement=False),
        sa.Column("ordinal", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    op.create_index("files_path", "files", ["path"])


def _consumption() -> None:
    op.create_table(
        "cursors",
        sa.Column("binding_id", _ID, sa.ForeignKey("bindings.id"), primary_key=True, autoincrement=False),
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("channel_id", _ID, sa.ForeignKey("channels.id"), primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("reached", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
    op.create_index("cursors_channel", "cursors", ["channel_id"])
    op.create_table(
        "run_reads",
        sa.Column("run_id", _ID, sa.ForeignKey("runs.id"), primary_key=True, autoincrement=False),
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("channel_id", _ID, sa.ForeignKey("channels.id"), primary_key=True, autoincrement=False),
        sa.Column("since", sa.BigInteger),
        sa.Column("upto", sa.BigInteger, nullable=False),
    )
    op.create_index("run_reads_channel", "run_reads", ["channel_id", "upto"])


def _history() -> None:
    op.create_table(
        "logs",
        sa.Column("run_id", _ID, sa.ForeignKey("runs.id"), primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("run_id", _ID, sa.ForeignKey("runs.id")),
        sa.Column("detail", sa.JSON, nullable=False),
    )
    op.create_index("events_run", "events", ["run_id"])


def _partial_index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
