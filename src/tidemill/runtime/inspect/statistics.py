"""Costs and volumes of each task: the statistics that dispatching uses, for display."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.model.run import Run, RunKind, RunState
from tidemill.ports.catalog import CatalogReader
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
    statistics: list[TaskStatistics] = []
    for flow in status.flows:
        runs = catalog.runs.list(subject=flow.name, state=RunState.FINISHED, limit=RECENT_RUNS)
        finished = [r for r in runs if r.kind is RunKind.FLOW and r.stats.get("tasks")]
        statistics += (
            _compute_task_statistics(
                flow.name,
                t.name,
                priorities.get(flow.name, 1.0),
                finished,
                _count_queued_blocks(status, flow.name, t.name),
                now,
            )
            for t in flow.tasks
        )
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
    seconds = sum(s["seconds"] for s in stats) / len(stats)
    selectivity = written / read if read else None
    return TaskStatistics(
        flow, task, priority, len(stats), seconds, selectivity, read / elapsed, written / elapsed, queue
    )


def _count_queued_blocks(status: ProjectStatus, flow: str, task: str) -> int:
    consumers = (c for channel in status.channels for c in channel.consumers)
    return max((c.behind for c in consumers if (c.flow, c.task) == (flow, task)), default=0)
