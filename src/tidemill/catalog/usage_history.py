"""What was submitted and what was refreshed, for figures. A refresh nobody submits: it has no user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import ColumnElement, Connection, Label, Select, func, select

from tidemill.catalog.oneshot_tables import actions, datasets, submissions
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.tables import bindings, blocks, runs
from tidemill.model.run import RunKind, RunState
from tidemill.model.usage import Past, Period

_ENDED = (RunState.FINISHED, RunState.FAILED, RunState.KILLED)


Conditions = Sequence[ColumnElement[bool]]


def past(connection: Connection, wanted: Period) -> list[Past]:
    """Every action submitted and every task refreshed within a period, as far as it is remembered."""
    asked = submitted(connection, (*_within(submissions.c.at, wanted), *_named(wanted)))
    return [*asked, *_chosen(connection, wanted)]


def submitted(connection: Connection, of: Conditions) -> Iterator[Past]:
    """Actions of those submissions for which this holds."""
    rows: Iterable[AnyRow] = connection.execute(_ACTIONS.where(*of))
    return (_action(row) for row in rows)


def _within(at: ColumnElement[float], wanted: Period) -> tuple[ColumnElement[bool], ...]:
    return at >= wanted.since, at < wanted.until


def _named(wanted: Period) -> Iterator[ColumnElement[bool]]:
    columns = ((submissions.c.user, wanted.user), (submissions.c.workflow, wanted.workflow))
    return (column == name for column, name in (*columns, (actions.c.name, wanted.task)) if name is not None)


_ACTIONS = (
    select(
        submissions.c.id,
        submissions.c.at,
        submissions.c.user,
        submissions.c.workflow,
        actions.c.name,
        actions.c.verdict,
        actions.c.saved,
        actions.c.run_id,
        runs.c.state,
        runs.c.started,
        runs.c.finished,
        datasets.c.bytes,
    )
    .join_from(submissions, actions)
    .join(datasets)
    .outerjoin(runs, runs.c.id == actions.c.run_id)
    .order_by(submissions.c.id, actions.c.ordinal)
)


def _action(row: AnyRow) -> Past:
    state = None if row.state is None else RunState(row.state)
    told = (row.at, row.user, row.workflow, row.name, row.id, row.verdict, row.run_id, state)
    return Past(*told, _took(row), row.saved, row.bytes)


def _took(row: AnyRow) -> float:
    return 0.0 if row.started is None or row.finished is None else row.finished - row.started


def _chosen(connection: Connection, wanted: Period) -> Iterator[Past]:
    if wanted.user is not None:
        return
    for one in refreshed(connection, _within(runs.c.started, wanted)):
        if wanted.workflow in (None, one.workflow) and wanted.task in (None, one.task):
            yield one


def refreshed(connection: Connection, of: Conditions) -> Iterator[Past]:
    """Tasks of those ended runs of flows for which this holds."""
    ended = (runs.c.kind == RunKind.FLOW, runs.c.state.in_(_ENDED), runs.c.started.is_not(None), *of)
    written = _written(connection, ended)
    for row in connection.execute(_FLOWS.where(*ended)):
        yield from _tasks(row, written)


_FLOWS: Select[tuple[object, ...]] = (
    select(runs, func.coalesce(bindings.c.workflow, "").label("workflow"))
    .outerjoin_from(runs, bindings, bindings.c.name == runs.c.subject)
    .order_by(runs.c.id)
)


def _written(connection: Connection, of: Conditions) -> dict[tuple[int, str], int]:
    """Bytes, by run and task."""
    size: Label[int] = func.sum(blocks.c.bytes).label("size")
    query = select(blocks.c.run_id, blocks.c.task, size).join_from(blocks, runs, runs.c.id == blocks.c.run_id)
    rows = connection.execute(query.where(*of).group_by(blocks.c.run_id, blocks.c.task))
    return {(row.run_id, row.task): int(row.size) for row in rows}


def _tasks(row: AnyRow, written: dict[tuple[int, str], int]) -> Iterator[Past]:
    """One for each task that was run; one for the flow, if none was."""
    tasks = row.stats.get("tasks") or {row.subject: {"seconds": _took(row)}}
    for task, stats in tasks.items():
        told = (row.started, None, row.workflow, task, None, None, row.id, RunState(row.state))
        yield Past(*told, stats["seconds"], 0.0, written.get((row.id, task), 0))
