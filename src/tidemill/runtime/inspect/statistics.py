"""Costs and volumes of each task, which dispatching uses, for display and as metrics in the Prometheus text format."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidemill.model.run import Run
from tidemill.ports.catalog import CatalogReader
from tidemill.runtime.freshness.staleness import StalenessHistory, StalenessMeasure, measure_staleness
from tidemill.runtime.inspect.status import ProjectStatus

RECENT_RUNS = 20
"""Newest finished runs of a flow from which rates are computed."""


@dataclass(frozen=True, slots=True)
class TaskStatistics:
    """Recent statistics of one task. Rates are rows per second, from the start of the oldest run until now."""

    flow: str
    task: str
    priority: float
    runs: int  # number of runs that were read
    seconds: float | None  # of a run, on average; None: there was none
    selectivity: float | None  # rows written for each row that changed or was read
    input_rate: float | None
    output_rate: float | None
    queue: int  # blocks that it has not read yet


def compute_statistics(catalog: CatalogReader, status: ProjectStatus) -> list[TaskStatistics]:
    now = catalog.read_time()
    priorities = {name: f.priority for name, f in catalog.flows.read_statistics().items()}
    newest, queues = catalog.runs.list_newest_finished(RECENT_RUNS), _count_queued_blocks(status)
    statistics: list[TaskStatistics] = []
    for flow in status.flows:
        finished = [r for r in newest.get(flow.name, ()) if r.stats.get("tasks")]
        for task in (t.name for t in flow.tasks):
            queue, priority = queues.get((flow.name, task), 0), priorities.get(flow.name, 1.0)
            statistics.append(_compute_task_statistics(flow.name, task, priority, finished, queue, now))
    return statistics


def _compute_task_statistics(
    flow: str, task: str, priority: float, runs: Sequence[Run], queue: int, now: float
) -> TaskStatistics:
    stats = [r.stats["tasks"][task] for r in runs if task in r.stats["tasks"]]
    if not stats:
        return TaskStatistics(flow, task, priority, 0, None, None, None, None, queue)
    read = sum(s["change"] or s["content"] for s in stats)
    written = sum(s["rows_out"] for s in stats)
    elapsed = max(1e-6, now - min(r.started or r.created for r in runs))
    seconds, selectivity = sum(s["seconds"] for s in stats) / len(stats), written / read if read else None
    rates = (read / elapsed, written / elapsed)
    return TaskStatistics(flow, task, priority, len(stats), seconds, selectivity, *rates, queue)


def _count_queued_blocks(status: ProjectStatus) -> dict[tuple[str, str], int]:
    """Count the unread blocks of each task, by flow and task: those of its channel with the most."""
    queues: dict[tuple[str, str], int] = {}
    for consumer in (c for channel in status.channels for c in channel.consumers):
        key = (consumer.flow, consumer.task)
        queues[key] = max(consumer.behind, queues.get(key, 0))
    return queues


Sample = tuple[Mapping[str, str], float | None]


_TASK_GAUGES = (
    ("task_seconds", "Seconds of a run, on average.", "seconds"),
    ("task_selectivity", "Rows written for each row read.", "selectivity"),
    ("task_input_rows", "Rows read a second.", "input_rate"),
    ("task_output_rows", "Rows written a second.", "output_rate"),
    ("task_pending_blocks", "Blocks not read yet.", "queue"),
)
_CHANNEL_GAUGES = (  # they grow until compaction and garbage collection
    ("channel_blocks", "Blocks that can be read.", "blocks"),
    ("channel_bytes", "Bytes in their files.", "bytes"),
)


def render_metrics(
    status: ProjectStatus, tasks: Iterable[TaskStatistics], history: StalenessHistory, now: float, *, paused: bool
) -> str:
    """Render all metrics; unknown values are left out. `paused`: maintenance is paused."""
    labelled_tasks = [({"flow": t.flow, "task": t.task}, t) for t in tasks]
    labelled_channels = [({"channel": c.registered.channel.name}, c.registered) for c in status.channels]
    lines = [
        *(line for gauge in _TASK_GAUGES for line in _format_attribute(*gauge, labelled_tasks)),
        *_format_table_metrics(status, history, now),
        *(line for gauge in _CHANNEL_GAUGES for line in _format_attribute(*gauge, labelled_channels)),
        *_format_gauge("maintenance_paused", "1 while maintenance is paused.", [({}, float(paused))]),
    ]
    return "".join(f"{line}\n" for line in lines)


def _format_attribute(
    name: str, description: str, attribute: str, labelled: Iterable[tuple[Mapping[str, str], object]]
) -> Iterator[str]:
    return _format_gauge(name, description, [(labels, getattr(value, attribute)) for labels, value in labelled])


def _format_table_metrics(status: ProjectStatus, history: StalenessHistory, now: float) -> Iterator[str]:
    stale = [
        ({"table": n}, measure_staleness(history, n, StalenessMeasure.STALENESS, now))
        for n in sorted(history.provenance)
    ]
    yield from _format_gauge("table_staleness_seconds", "Seconds since it lacks data, or may lack some.", stale)
    weighted = sum(history.weights.get(table["table"], 1.0) * (seconds or 0.0) for table, seconds in stale)
    description = "Staleness of all tables, weighted by priority."
    yield from _format_gauge("weighted_staleness_seconds", description, [({}, weighted)])
    missed = [
        ({"table": c.registered.channel.name}, float(c.target_status.is_late or c.target_status.is_inconsistent))
        for c in status.channels
        if c.target_status is not None
    ]
    yield from _format_gauge("freshness_target_missed", "1 while a table does not meet its freshness target.", missed)
    active = Counter((str(run.kind), str(run.state)) for run in status.active)
    runs: list[Sample] = [({"kind": kind, "state": state}, float(n)) for (kind, state), n in sorted(active.items())]
    yield from _format_gauge("active_runs", "Runs that have not ended.", runs)


def _format_gauge(name: str, description: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP tidemill_{name} {description}"
    yield f"# TYPE tidemill_{name} gauge"
    for labels, value in samples:
        if value is not None:
            label_text = ",".join(f'{key}="{_escape_label(text)}"' for key, text in labels.items())
            yield f"tidemill_{name}{{{label_text}}} {value:g}" if label_text else f"tidemill_{name} {value:g}"


def _escape_label(text: str) -> str:
    """
    >>> _escape_label('say "x"')
    'say \\\\"x\\\\"'
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
