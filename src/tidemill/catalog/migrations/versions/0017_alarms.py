"""Active alarms: flows that fail, freshness targets that are missed, budgets whose threshold is exceeded."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "alarms",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("subject", sa.Text, primary_key=True),
        sa.Column("since", sa.Double, nullable=False),
    )
    op.execute("INSERT INTO alarms (kind, subject, since) SELECT 'flow failing', flow, since FROM failing_flows")
    op.drop_table("failing_flows")
