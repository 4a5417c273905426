"""What is promised of channels, what refreshing them was learnt to cost; runs are claimed, submitted, then running."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("channels", sa.Column("promise", sa.Text, nullable=False, server_default="{}"))
    op.add_column("triggers", sa.Column("lead", sa.Double, nullable=False, server_default="0"))
    op.drop_index("runs_one_running_per_flow", "runs")
    under_way = sa.text("kind = 'flow' AND state IN ('claimed', 'submitted', 'running')")
    op.create_index(
        "runs_one_under_way_per_flow",
        "runs",
        ["subject"],
        unique=True,
        sqlite_where=under_way,
        postgresql_where=under_way,
    )
    op.create_table("wishes", sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.JSON, nullable=False))
    op.create_table(
        "costs",
        sa.Column("binding_id", _ID, sa.ForeignKey("bindings.id"), primary_key=True, autoincrement=False),
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("variant", sa.Text, primary_key=True),
        sa.Column("learnt", sa.JSON, nullable=False),
    )
