"""An index by which a run finds a base with the identity of its output."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    readable = sa.text("kind = 'base' AND state = 'filled'")
    op.create_index("blocks_identity", "blocks", ["identity"], sqlite_where=readable, postgresql_where=readable)
