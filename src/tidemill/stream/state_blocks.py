"""State as blocks: a base and deltas of rows by key, readable as ordinary tables."""

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa

from tidemill.model.change import DELETED
from tidemill.stream.layout import Keys, RowLayout, Rows
from tidemill.stream.table import MIN_CAPACITY, StateTable

Key = tuple[str, ...]


def to_arrow_table(rows: Rows, layout: RowLayout) -> pa.Table:
    """Convert rows to a block: the key's columns and the fields."""
    return pa.table({name: np.ascontiguousarray(rows[name]) for name in layout.names})


def rebuild_table(layout: RowLayout, blocks: Iterable[pa.Table]) -> StateTable:
    """Rebuild the table from a base and the deltas after it; a later row of a key replaces an earlier one."""
    table = StateTable.create_table(layout, MIN_CAPACITY)
    for block in blocks:
        apply_block(table, block)
    return table


def apply_block(table: StateTable, block: pa.Table) -> None:
    layout = table.layout
    rows = layout.build_blank_rows(block.num_rows)
    for name in layout.names:
        rows[name] = block.column(name).to_numpy()
    keys: Keys = tuple(np.ascontiguousarray(rows[k]) for k in layout.key)
    table.write(table.ensure_slots(keys), rows)


def add_deletion_column(block: pa.Table) -> pa.Table:
    """Return a block with its column for deletions. A base has none: it contains no deletions."""
    if DELETED in block.column_names:
        return block
    return block.append_column(DELETED, pa.nulls(block.num_rows, pa.bool_()))


def build_key_delta(names: Sequence[str], before: Collection[Key], now: Collection[Key]) -> pa.Table:
    """Return the delta from some keys to others, as `list_live_keys` reads it."""
    added, removed = [k for k in now if k not in before], [k for k in before if k not in now]
    keys = {name: pa.array([key[n] for key in (*added, *removed)], pa.string()) for n, name in enumerate(names)}
    return pa.table(keys | {DELETED: pa.array([None] * len(added) + [True] * len(removed), pa.bool_())})


def list_live_keys(blocks: Iterable[pa.Table], names: Sequence[str]) -> list[Key]:
    """Return the keys of a base and the deltas after it, in order of arrival."""
    live: dict[Key, None] = {}
    for block in blocks:
        *keys, deleted = add_deletion_column(block).select([*names, DELETED]).to_pydict().values()
        for key, is_deleted in zip(zip(*keys, strict=True), deleted, strict=True):
            if is_deleted:
                live.pop(key, None)
            else:
                live[key] = None
    return list(live)
