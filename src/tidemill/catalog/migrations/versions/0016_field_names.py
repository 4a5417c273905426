"""Tables, columns, indexes and events get the names that the field uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

Json = dict[str, Any]

revision = "0016"
down_revision = "0015"

TABLES = {
    "merging": "channel_merge_costs",
    "wishes": "setting_overrides",
    "holds": "pin_holds",
    "places": "consumer_offsets",
    "troubles": "failing_flows",
    "needs": "run_inputs",
}
COLUMNS = {
    "channels": {
        "promise": "freshness_target",
        "declared": "declared_schema",
        "head_reached": "head_provenance",
        "forgotten": "expired_seq",
    },
    "runs": {"fence": "fencing_token", "asked": "requested", "lost": "lost_attempts"},
    "blocks": {"reached": "provenance", "edge": "watermark"},
    "cursors": {"reached": "provenance"},
    "costs": {"learnt": "model"},
    "channel_merge_costs": {"paid": "seconds", "rewriting": "rewrite_cost", "asked": "interactive_reads"},
    "triggers": {"reached": "milestone", "least_rows": "min_rows", "least_bytes": "min_bytes"},
    "leases": {"fence": "fencing_token"},
    "servers": {"seen": "last_heartbeat"},
    "datasets": {"plain": "unforced_identity", "keep": "is_leaf", "made": "computed_at", "used": "used_at"},
    "actions": {"saved": "saved_seconds", "placed": "copied_at", "why": "reason"},
    "tallies": {"saved": "saved_seconds"},
}
IS_NOT_COMPACTED = sa.text("origin != 'compaction'")
EVENTS = {
    "submission.made": "submission.created",
    "run.woken": "run.rescheduled",
    "run.taken": "run.acquired",
    "run.began": "run.started",
    "dataset.placed": "dataset.exported",
}


def upgrade() -> None:
    for old, new in TABLES.items():
        op.rename_table(old, new)
        _rename_constraints(old, new)
    for table, columns in COLUMNS.items():
        for old, new in columns.items():
            op.execute(f'ALTER TABLE {table} RENAME COLUMN "{old}" TO "{new}"')
    _rename_indexes()
    for old, new in EVENTS.items():
        op.execute(sa.text("UPDATE events SET kind = :new WHERE kind = :old").bindparams(old=old, new=new))
    op.execute("UPDATE setting_overrides SET name = 'catch_up_limit' WHERE name = 'chop'")
    op.execute("UPDATE setting_overrides SET name = 'maintenance' WHERE name = 'upkeep'")
    _rename_keys("workflows", "name", "document", _rename_document_keys)
    _rename_keys("bindings", "id", "spec", _rename_spec_keys)
    _rename_keys("runs", "id", "stats", _rename_stats_keys)
    _rename_pending_channels()


def _rename_keys(table: str, key: str, column: str, rename: Callable[[Json], Json]) -> None:
    """Rename keys of JSON documents where they are: a task or a table may have the name of such a key."""
    rows = sa.table(table, sa.column(key), sa.column(column, sa.JSON(none_as_null=True)))
    for identity, document in op.get_bind().execute(sa.select(rows.c[key], rows.c[column])).all():
        if document is not None and (renamed := rename(document)) != document:
            op.execute(sa.update(rows).where(rows.c[key] == identity).values({column: renamed}))


def _rename_document_keys(document: Json) -> Json:
    return document | {"tables": [_rename(table, together="refresh_group") for table in document.get("tables", [])]}


def _rename_spec_keys(spec: Json) -> Json:
    return spec | {"tasks": [_rename(task, settles="has_watermark") for task in spec["tasks"]]}


def _rename_stats_keys(stats: Json) -> Json:
    renamed = _rename(stats, left="pending_blocks")
    if "tasks" in renamed:
        renamed["tasks"] = {name: _rename(task, edge="watermark") for name, task in renamed["tasks"].items()}
    if "plan" in renamed:
        renamed["plan"] = _rename(renamed["plan"], why="reason")
    return renamed


def _rename(document: Json, **names: str) -> Json:
    return {names.get(key, key): value for key, value in document.items()}


def _rename_constraints(old: str, new: str) -> None:
    """PostgreSQL names the constraints of a table after it; SQLite does not name them."""
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    query = sa.text("SELECT conname FROM pg_constraint WHERE conrelid = CAST(:table AS regclass)")
    for name in connection.execute(query, {"table": new}).scalars().all():
        if name.startswith(f"{old}_"):
            op.execute(f"ALTER TABLE {new} RENAME CONSTRAINT {name} TO {new}_{name.removeprefix(f'{old}_')}")


def _rename_pending_channels() -> None:
    """Events that wait for a watermark are on NAME.pending, not NAME.held."""
    connection = op.get_bind()
    names = connection.execute(sa.text("SELECT name FROM channels WHERE name LIKE '%.held'")).scalars().all()
    for old in names:
        new = f"{old.removesuffix('.held')}.pending"
        values = {"old": old, "new": new}
        connection.execute(sa.text("UPDATE channels SET name = :new WHERE name = :old"), values)
        connection.execute(sa.text("UPDATE events SET subject = :new WHERE subject = :old"), values)
        _replace_json("bindings", "spec", f'"{old}"', f'"{new}"')


def _replace_json(table: str, column: str, old: str, new: str) -> None:
    """Replace a text in the JSON documents of a column."""
    replaced = f"replace(CAST({column} AS TEXT), :old, :new)"
    value = f"CAST({replaced} AS JSON)" if op.get_bind().dialect.name == "postgresql" else replaced
    found = f"CAST({column} AS TEXT) LIKE :pattern"
    op.get_bind().execute(
        sa.text(f"UPDATE {table} SET {column} = {value} WHERE {found}"),
        {"old": old, "new": new, "pattern": f"%{old}%"},
    )


def _rename_indexes() -> None:
    """SQLite cannot rename an index: each is dropped and created."""
    op.drop_index("holds_block", "pin_holds")
    op.create_index("pin_holds_block", "pin_holds", ["block_id"])
    op.drop_index("blocks_place", "blocks")
    op.create_index("blocks_position", "blocks", ["channel_id", "seq", "kind", "since"], unique=True)
    op.drop_index("blocks_slot", "blocks")
    op.create_index(
        "blocks_reservation",
        "blocks",
        ["channel_id", "seq"],
        unique=True,
        sqlite_where=IS_NOT_COMPACTED,
        postgresql_where=IS_NOT_COMPACTED,
    )
    op.drop_index("triggers_place", "triggers")
    op.create_index("triggers_position", "triggers", ["binding_id", "root", "id"])
    op.drop_index("datasets_plain", "datasets")
    op.create_index("datasets_unforced_identity", "datasets", ["unforced_identity", "generation"])
    op.drop_index("needs_identity", "run_inputs")
    op.create_index("run_inputs_identity", "run_inputs", ["identity"])
