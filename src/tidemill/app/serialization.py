"""Documents that combine several values; all others are read from one value by their declaration in `wire`."""

from collections.abc import Sequence
from typing import Any

from tidemill.encoding import values
from tidemill.model.schema import Schema
from tidemill.runtime.freshness import staleness
from tidemill.runtime.freshness.staleness import StalenessHistory, StalenessMeasure
from tidemill.runtime.inspect.lineage import EventLineage
from tidemill.runtime.oneshot.storage_report import StorageReport
from tidemill.wire import explain_schemas, oneshot_schemas, schemas

Row = dict[str, Any]


def serialize_row(row: Row, schema: Schema) -> Row:
    return {field.name: values.to_json(row[field.name], field.data_type) for field in schema}


def serialize_rows(channel: str, schema: Schema | None, rows: Sequence[Row], limit: int | None) -> schemas.RowsDocument:
    """The first `limit` rows of a channel."""
    page = [serialize_row(row, schema or Schema(())) for row in rows[:limit]]
    return schemas.RowsDocument(channel=channel, rows=page, more=len(rows) > len(page))


def serialize_lineage(value: EventLineage) -> explain_schemas.LineageDocument:
    relatives = [
        explain_schemas.LineageRowDocument.build(
            relation=r.relation, channel=r.channel, lineage_tag=r.tag, row=serialize_row(r.row, r.schema)
        )
        for r in value.relatives
    ]
    return explain_schemas.LineageDocument.build(channel=value.channel, lineage_tag=value.tag, relatives=relatives)


def serialize_staleness(
    history: StalenessHistory, measure: StalenessMeasure, since: float, now: float
) -> schemas.StalenessDocument:
    """The staleness of each table over time, and that of all tables together."""
    curves = staleness.compute_curves(history, measure, since, now)
    total = schemas.StalenessCurveDocument.model_validate(staleness.sum_curves(curves, history.weights))
    tables = [
        schemas.StalenessCurveDocument.build(
            table=curve.table,
            points=curve.points,
            integral=curve.integral,
            now=staleness.measure_staleness(history, curve.table, measure, now),
        )
        for curve in curves
    ]
    return schemas.StalenessDocument.build(measure=measure, since=since, now=now, tables=tables, total=total)


def serialize_storage(value: StorageReport, *, evicted: bool) -> oneshot_schemas.StorageDocument:
    """A storage report; `evicted`: the datasets listed as evictions have been deleted."""
    dataset = oneshot_schemas.DatasetDocument.model_validate
    return oneshot_schemas.StorageDocument.extend(
        oneshot_schemas.StorageUsageDocument.model_validate(value.shares.store),
        workflows=value.shares.workflows,
        channels=value.shares.channels,
        retained=[
            oneshot_schemas.RetainedDatasetDocument.extend(dataset(r.dataset), reason=r.why) for r in value.retained
        ],
        evicted=evicted,
        evictions=[
            oneshot_schemas.EvictionCandidateDocument.extend(dataset(e.dataset), recompute_seconds=e.seconds)
            for e in value.evictions
        ],
        freed_bytes=value.freed_bytes,
        recompute_seconds=value.seconds,
        problems=value.problems,
    )
