"""Usage history: submitted actions and refreshed tasks, and hourly totals of those that expired.

A refresh has no user. The totals keep usage figures of the past correct.
"""

from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, Connection, Label, Select, delete, func, select

from tidemill.catalog.rows import AnyRow, build_reader
from tidemill.catalog.tables import actions, bindings, blocks, datasets, runs, submissions, tallies
from tidemill.catalog.transaction import Transaction
from tidemill.model.run import RunKind, RunState
from tidemill.model.usage import COUNTED, UsageFigures, UsagePeriod, UsageRecord, UsageTally
from tidemill.retention.usage_history import TimeResolution, tally_usage

_ENDED = (RunState.FINISHED, RunState.FAILED, RunState.KILLED)


Conditions = Sequence[ColumnElement[bool]]


_SECONDS = func.coalesce(runs.c.finished - runs.c.started, 0.0).label("seconds")


def read_usage(connection: Connection, period: UsagePeriod) -> list[UsageRecord]:
    """All actions submitted and all tasks refreshed within a period that have not expired."""
    submitted = list_submitted_actions(connection, (*_match_period(submissions.c.at, period), *_match_names(period)))
    return [*submitted, *_list_matching_refreshes(connection, period)]


def list_submitted_actions(connection: Connection, conditions: Conditions) -> Iterator[UsageRecord]:
    """The actions of submissions that meet the conditions."""
    return (_to_past_action(row) for row in connection.execute(_ACTIONS.where(*conditions)))


def _match_period(time_column: ColumnElement[float], period: UsagePeriod) -> tuple[ColumnElement[bool], ...]:
    return time_column >= period.since, time_column < period.until


def _match_names(period: UsagePeriod) -> Iterator[ColumnElement[bool]]:
    columns = ((submissions.c.user, period.user), (submissions.c.workflow, period.workflow))
    return (column == name for column, name in (*columns, (actions.c.name, period.task)) if name is not None)


_ACTIONS = (
    select(
        *submissions.c["id", "at", "user", "workflow"],
        *actions.c["name", "verdict", "saved_seconds", "run_id"],
        *(runs.c.state, _SECONDS, datasets.c.bytes),
    )
    .join_from(submissions, actions)
    .join(datasets)
    .outerjoin(runs, runs.c.id == actions.c.run_id)
    .order_by(submissions.c.id, actions.c.ordinal)
)


_to_past_action = build_reader(UsageRecord, task="name", submission="id", run="run_id")


def _list_matching_refreshes(connection: Connection, period: UsagePeriod) -> Iterator[UsageRecord]:
    if period.user is not None:
        return
    for record in list_refreshed_tasks(connection, _match_period(runs.c.started, period)):
        if period.workflow in (None, record.workflow) and period.task in (None, record.task):
            yield record


def list_refreshed_tasks(connection: Connection, filters: Conditions) -> Iterator[UsageRecord]:
    """The tasks of ended runs of flows that meet the conditions."""
    conditions = (runs.c.kind == RunKind.FLOW, runs.c.state.in_(_ENDED), runs.c.started.is_not(None), *filters)
    written_bytes = _sum_written_bytes(connection, conditions)
    for row in connection.execute(_FLOWS.where(*conditions)):
        yield from _to_past_tasks(row, written_bytes)


_FLOWS: Select[tuple[object, ...]] = (
    select(runs, _SECONDS, func.coalesce(bindings.c.workflow, "").label("workflow"))
    .outerjoin_from(runs, bindings, bindings.c.name == runs.c.subject)
    .order_by(runs.c.id)
)


def _sum_written_bytes(connection: Connection, conditions: Conditions) -> dict[tuple[int, str], int]:
    """Bytes written, by run and task."""
    size: Label[int] = func.sum(blocks.c.bytes).label("size")
    query = select(blocks.c.run_id, blocks.c.task, size).join_from(blocks, runs, runs.c.id == blocks.c.run_id)
    rows = connection.execute(query.where(*conditions).group_by(blocks.c.run_id, blocks.c.task))
    return {(row.run_id, row.task): int(row.size) for row in rows}


def _to_past_tasks(row: AnyRow, written_bytes: dict[tuple[int, str], int]) -> Iterator[UsageRecord]:
    """One record for each task that ran; one for the flow, if none ran."""
    tasks = row.stats.get("tasks") or {row.subject: {"seconds": row.seconds}}
    for task, stats in tasks.items():
        fields = (row.started, None, row.workflow, task, None, None, row.id, row.state)
        yield UsageRecord(*fields, stats["seconds"], 0.0, written_bytes.get((row.id, task), 0))


def record_tallies(tx: Transaction, records: Sequence[UsageRecord]) -> None:
    """Add records that are about to expire to the hourly totals."""
    for tally in tally_usage(records):
        counts = {name: getattr(tally.figures, name) for name in COUNTED}
        key = {"user": tally.user or "", "workflow": tally.workflow, "task": tally.task or ""}
        sums = {name: tallies.c[name] + count for name, count in counts.items()}
        tx.upsert_row(tallies, {"begin": tally.figures.begin, **key}, sums, counts)


def read_tallies(connection: Connection, period: UsagePeriod) -> list[UsageTally]:
    """The totals of the hours that overlap a period, including its first hour."""
    within = (tallies.c.begin >= TimeResolution.HOUR.find_begin(period.since), tallies.c.begin < period.until)
    filters = ((tallies.c[n], getattr(period, n)) for n in ("user", "workflow", "task"))
    conditions = [column == name for column, name in filters if name is not None]
    rows = connection.execute(select(tallies).where(*within, *conditions).order_by(tallies.c.begin))
    return [_to_tally(row) for row in rows]


def _to_tally(row: AnyRow) -> UsageTally:
    figures = UsageFigures(row.begin, **{name: getattr(row, name) for name in COUNTED})
    return UsageTally(row.user or None, row.workflow, row.task or None, figures)


def expire_tallies(tx: Transaction, before: float) -> None:
    tx.execute(delete(tallies).where(tallies.c.begin < before))
