"""Lookups that several nouns share."""

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from typing import Any, TypeVar

from sqlalchemy import CTE, ColumnClause, Connection, Select, Table, func, select, values

from tidemill.catalog.rows import AnyRow, to_block, to_position
from tidemill.catalog.tables import bindings, blocks, channels, cursors, files, run_reads, runs
from tidemill.catalog.transaction import Transaction
from tidemill.errors import NotFound
from tidemill.model.block import Block, ChannelPosition
from tidemill.model.run import EXECUTING_STATES

BLOCKS = select(blocks, channels.c.name.label("channel"), channels.c.role).join_from(blocks, channels)

_MAX_LISTED = 10
_BATCH_SIZE = 500  # databases limit the parameters of a statement

T = TypeVar("T", str, int, tuple[str, int])


def split_batches(values: Iterable[T]) -> list[list[T]]:
    """The distinct values in ascending order, in batches that fit into one statement."""
    ordered = sorted(set(values))
    return [ordered[start : start + _BATCH_SIZE] for start in range(0, len(ordered), _BATCH_SIZE)]


def build_rows(rows: Iterable[tuple[object, ...]], *columns: ColumnClause[Any]) -> CTE:
    """A table of the given rows, to be joined by a statement."""
    return values(*columns, name="given").data(list(rows)).cte("given")


def read_channel(connection: Connection, name: str) -> AnyRow:
    row = connection.execute(select(channels).where(channels.c.name == name)).one_or_none()
    if row is None:
        raise _build_name_error(connection, "channel", name, channels)
    return row


def select_stops(channel_ids: Iterable[int]) -> Select[tuple[int]]:
    """Select the positions before the head of a channel where active runs will leave cursors."""
    stops = select(run_reads.c.upto).join_from(run_reads, runs)
    return stops.where(run_reads.c.channel_id.in_(channel_ids), runs.c.state.in_(EXECUTING_STATES))


def check_active(connection: Connection, noun: str, name: str) -> None:
    """Raise unless `name` is a channel or bound flow that a workflow declares now."""
    table = {"channel": channels, "bound flow": bindings}[noun]
    if not connection.execute(select(table.c.id).where(table.c.name == name, table.c.active)).first():
        raise _build_name_error(connection, noun, name, table)


def read_channel_ids(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    requested = set(names)
    rows = connection.execute(select(channels.c.name, channels.c.id).where(channels.c.name.in_(requested)))
    known: dict[str, int] = {row.name: row.id for row in rows}
    check_known(connection, requested, known)
    return known


def check_known(connection: Connection, names: Iterable[str], known: Container[str]) -> None:
    for name in sorted(names):
        if name not in known:
            raise _build_name_error(connection, "channel", name, channels)


def read_binding_id(connection: Connection, name: str) -> int:
    binding_id: int | None = connection.execute(select(bindings.c.id).where(bindings.c.name == name)).scalar()
    if binding_id is None:
        raise _build_name_error(connection, "bound flow", name, bindings)
    return binding_id


def lock_binding(tx: Transaction, name: str) -> AnyRow:
    """The row of a bound flow, locked against changes until the transaction ends."""
    query = select(bindings).where(bindings.c.name == name).with_for_update(read=True)
    row = tx.execute(query).one_or_none()
    if row is None:
        raise _build_name_error(tx.connection, "bound flow", name, bindings)
    return row


def read_binding_cursors(tx: Transaction, binding: int) -> dict[tuple[str, int], ChannelPosition]:
    """The positions of a bound flow's cursors, by task and channel."""
    rows = tx.execute(select(cursors).where(cursors.c.binding_id == binding))
    return {(row.task, row.channel_id): to_position(row) for row in rows}


def read_run(connection: Connection, run: int, *, lock: bool = False) -> AnyRow:
    query = select(runs).where(runs.c.id == run)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise _build_number_error(connection, "run", run, runs)
    return row


def read_block(connection: Connection, block: int) -> Block:
    matches = read_blocks(connection, BLOCKS.where(blocks.c.id == block))
    if not matches:
        raise _build_number_error(connection, "block", block, blocks)
    return matches[0]


def read_blocks(connection: Connection, query: Select[Any]) -> list[Block]:
    """The blocks of a query over `BLOCKS`, with their files, in two statements for any number of blocks."""
    rows = connection.execute(query).all()
    if not rows:
        return []
    is_selected = files.c.block_id.in_(query.with_only_columns(blocks.c.id, maintain_column_froms=True))
    files_by_block = defaultdict(list)
    for file in connection.execute(select(files).where(is_selected).order_by(files.c.block_id, files.c.ordinal)):
        files_by_block[file.block_id].append(file)
    return [to_block(row, files_by_block[row.id]) for row in rows]


def _build_name_error(connection: Connection, noun: str, name: str, table: Table) -> NotFound:
    names = select(table.c.name).where(table.c.active).order_by(table.c.name).limit(_MAX_LISTED + 1)
    known: Sequence[str] = connection.execute(names).scalars().all()
    if not known:
        return NotFound(f"there is no {noun} {name!r}, nor any other; apply a workflow that declares it")
    shown = ", ".join(known[:_MAX_LISTED]) + (", …" if len(known) > _MAX_LISTED else "")
    return NotFound(f"there is no {noun} {name!r}; known are {shown}")


def _build_number_error(connection: Connection, noun: str, number: int, table: Table) -> NotFound:
    newest = connection.execute(select(func.max(table.c.id))).scalar()
    if newest is not None and 0 < number < newest:
        return NotFound(
            f"{noun} {number} has expired: only the newest runs and their blocks are kept; "
            "to keep more, raise run_history under [maintenance]"
        )
    hint = f"the newest is {newest}" if newest is not None else "there are none yet"
    return NotFound(f"there is no {noun} {number}; {hint}")
