"""A catalog has an id, by which its store knows it; what is to be removed from the store is marked first."""

from __future__ import annotations

import time
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("clock", sa.Column("catalog", sa.Text, nullable=False, server_default=""))
    op.execute(sa.text("UPDATE clock SET catalog = :id").bindparams(id=uuid4().hex))
    op.create_table(
        "removals",
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("run_id", Id, sa.ForeignKey("runs.id")),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("marked", sa.Double, nullable=False),
    )
    op.create_index("removals_marked", "removals", ["marked"])
    op.create_index("removals_run", "removals", ["run_id"])
    op.execute(
        sa.text(
            "INSERT INTO removals (path, run_id, kind, marked) SELECT directory, id, 'attempt', :now FROM runs "
            "WHERE state IN ('failed', 'killed') AND directory IS NOT NULL"
        ).bindparams(now=time.time())
    )
