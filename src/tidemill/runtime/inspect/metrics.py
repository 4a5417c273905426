"""Metrics for monitoring, in the Prometheus text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tidemill.runtime.freshness.staleness import StalenessHistory, StalenessMeasure, measure_staleness
from tidemill.runtime.inspect.statistics import TaskStatistics
from tidemill.runtime.inspect.status import ProjectStatus

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
