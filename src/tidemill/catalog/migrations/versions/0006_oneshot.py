"""One-shot workflows that were submitted, their actions, and the datasets that they make and read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "submissions",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("workflow", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
    )
    op.create_index("submissions_workflow", "submissions", ["workflow", "id"])
    op.create_index("submissions_at", "submissions", ["at"])
    op.create_table(
        "datasets",
        sa.Column("identity", sa.Text, primary_key=True),
        sa.Column("plain", sa.Text, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("description", sa.JSON, nullable=False),
        sa.Column("workflow", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("parents", sa.JSON, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("claims", sa.Integer, nullable=False),
        sa.Column("keep", sa.Boolean, nullable=False),
        sa.Column("run_id", _ID, sa.ForeignKey("runs.id")),
        sa.Column("schema", sa.Text),
        sa.Column("files", sa.JSON, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("made", sa.Double),
        sa.Column("used", sa.Double),
    )
    op.create_index("datasets_plain", "datasets", ["plain", "generation"])
    op.create_index("datasets_state", "datasets", ["state"])
    op.create_index("datasets_run", "datasets", ["run_id"])
    op.create_table(
        "actions",
        sa.Column("submission_id", _ID, sa.ForeignKey("submissions.id"), primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("identity", sa.Text, sa.ForeignKey("datasets.identity"), nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("saved", sa.Double, nullable=False),
        sa.Column("path", sa.Text),
        sa.Column("placed", sa.Double),
        sa.Column("run_id", _ID, sa.ForeignKey("runs.id")),
    )
    op.create_index("actions_identity", "actions", ["identity"])
    op.create_index("actions_run", "actions", ["run_id"])
    op.create_table(
        "needs",
        sa.Column("run_id", _ID, sa.ForeignKey("runs.id"), primary_key=True, autoincrement=False),
        sa.Column("identity", sa.Text, sa.ForeignKey("datasets.identity"), primary_key=True),
        sa.Column("claimed", sa.Boolean, nullable=False),
    )
    op.create_index("needs_identity", "needs", ["identity"])
