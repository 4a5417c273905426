"""Metrics for monitoring, in the Prometheus text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tidemill.runtime.freshness.staleness import StalenessHistory, StalenessMeasure, measure_staleness
from tidemill.runtime.inspect.statistics import TaskStatistics
from tidemill.runtime.inspect.status import ProjectStatus

Sample = tuple[Mapping[str, str], float | None]


def render_metrics(
    status: ProjectStatus, tasks: Iterable[TaskStatistics], history: StalenessHistory, now: float, *, paused: bool
) -> str:
    """Render all metrics; unknown values are left out. `paused`: maintenance is paused."""
    lines = (*_format_metrics(status, list(tasks), history, now), *_format_storage_metrics(status, paused))
    return "".join(f"{line}\n" for line in lines)


def _format_metrics(
    status: ProjectStatus, tasks: list[TaskStatistics], history: StalenessHistory, now: float
) -> Iterator[str]:
    labelled = [({"flow": t.flow, "task": t.task}, t) for t in tasks]
    yield from _format_gauge(
        "task_seconds", "Seconds of a run, on average.", [(labels, t.seconds) for labels, t in labelled]
    )
    yield from _format_gauge(
        "task_selectivity", "Rows written for each row read.", [(labels, t.selectivity) for labels, t in labelled]
    )
    yield from _format_gauge(
        "task_input_rows", "Rows read a second.", [(labels, t.input_rate) for labels, t in labelled]
    )
    yield from _format_gauge(
        "task_output_rows", "Rows written a second.", [(labels, t.output_rate) for labels, t in labelled]
    )
    yield from _format_gauge(
        "task_pending_blocks", "Blocks not read yet.", [(labels, float(t.queue)) for labels, t in labelled]
    )
    stale = [
        ({"table": n}, measure_staleness(history, n, StalenessMeasure.STALENESS, now))
        for n in sorted(history.provenance)
    ]
    yield from _format_gauge("table_staleness_seconds", "Seconds since it lacks data, or may lack some.", stale)
    weighted = sum(history.weights.get(table["table"], 1.0) * (seconds or 0.0) for table, seconds in stale)
    yield from _format_gauge(
        "weighted_staleness_seconds", "Staleness of all tables, weighted by priority.", [({}, weighted)]
    )
    missed = [
        ({"table": c.registered.channel.name}, float(c.target_status.is_late or c.target_status.is_inconsistent))
        for c in status.channels
        if c.target_status is not None
    ]
    yield from _format_gauge("freshness_target_missed", "1 while a table does not meet its freshness target.", missed)
    active = Counter((str(run.kind), str(run.state)) for run in status.active)
    runs: list[Sample] = [({"kind": kind, "state": state}, float(n)) for (kind, state), n in sorted(active.items())]
    yield from _format_gauge("active_runs", "Runs that have not ended.", runs)


def _format_storage_metrics(status: ProjectStatus, paused: bool) -> Iterator[str]:
    """Yield the metrics that grow until compaction and garbage collection."""
    labelled = [({"channel": c.registered.channel.name}, c.registered) for c in status.channels]
    yield from _format_gauge(
        "channel_blocks", "Blocks that can be read.", [(labels, float(c.blocks)) for labels, c in labelled]
    )
    yield from _format_gauge(
        "channel_bytes", "Bytes in their files.", [(labels, float(c.bytes)) for labels, c in labelled]
    )
    yield from _format_gauge("maintenance_paused", "1 while maintenance is paused.", [({}, float(paused))])


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
