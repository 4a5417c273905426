"""Tables of the status of a project, which only commands show."""

from collections.abc import Iterable

from rich.console import RenderableType

from tidemill.cli.output import NONE, build_table, render_list
from tidemill.display import columns
from tidemill.display import formatting as fmt
from tidemill.display.table import Column, TableCell, link_run, show_state
from tidemill.model.registration import RegistrationChange
from tidemill.model.run import Run
from tidemill.model.time import Version
from tidemill.model.units import format_size, format_span
from tidemill.planner.catalog_state import TargetStatus
from tidemill.runtime.freshness import staleness
from tidemill.runtime.freshness.staleness import StalenessHistory, StalenessMeasure
from tidemill.runtime.inspect.statistics import TaskStatistics
from tidemill.runtime.inspect.status import ChannelConsumer, ChannelStatus, FlowStatus, ReflectedVersions

UNREGISTERED = "none; tidemill apply registers them"

STEP: tuple[Column[RegistrationChange], ...] = (
    Column("", lambda s, _: show_state(s.action)),
    Column("what", lambda s, _: s.noun),
    Column("name", lambda s, _: s.name),
    Column("detail", lambda s, _: s.detail),
)

CHANNEL: tuple[Column[ChannelStatus], ...] = (
    Column("channel", lambda c, _: c.registered.channel.name),
    Column("role", lambda c, _: str(c.registered.channel.role)),
    Column("updates", lambda c, _: columns.format_updates(c.registered.channel.updates)),
    Column(">head", lambda c, _: fmt.format_count(c.registered.head.seq)),
    Column(">rows", lambda c, _: fmt.format_count(c.rows)),
    Column(">blocks", lambda c, _: fmt.format_count(c.registered.blocks)),
    Column(">rows in blocks", lambda c, _: fmt.format_count(c.registered.rows)),
    Column(">size", lambda c, _: format_size(c.registered.bytes)),
    Column("reflects", lambda c, now: [*format_reflected(c.reflects, now), *_format_watermark(c.watermark, now)]),
    Column("consumers", lambda c, _: [format_consumer(consumer) for consumer in c.consumers]),
)

FLOW: tuple[Column[FlowStatus], ...] = (
    Column("flow", lambda f, _: f.name),
    Column("tasks", lambda f, _: [task.name for task in f.tasks]),
    Column("last run", lambda f, _: None if f.last is None else link_run(f.last.id)),
    Column("state", lambda f, _: "never run" if f.last is None else show_state(f.last.state)),
    Column("when", lambda f, now: _format_run_age(f.last, now)),
    Column(">took", lambda f, now: format_run_duration(f.last, now)),
    Column("new data", lambda f, _: f"pending on {', '.join(f.pending_channels)}" if f.pending_channels else "none"),
)

STATISTICS: tuple[Column[TaskStatistics], ...] = (
    Column("flow", lambda s, _: s.flow),
    Column("task", lambda s, _: s.task),
    Column(">priority", lambda s, _: f"{s.priority:g}"),
    Column(">seconds", lambda s, _: _format_figure(s.seconds)),
    Column(">selectivity", lambda s, _: _format_figure(s.selectivity)),
    Column(">rows in/s", lambda s, _: _format_figure(s.input_rate)),
    Column(">rows out/s", lambda s, _: _format_figure(s.output_rate)),
    Column(">pending", lambda s, _: fmt.format_plural(s.queue, "block")),
)

BLOCK = (
    *columns.BLOCK[:-1],
    # A derived block has no version: it is as new as the newest input that it reflects.
    Column[columns.AnyBlock]("visible", lambda b, now: fmt.format_age(fmt.to_timestamp(b.version), now)),
)


def render_steps(values: Iterable[RegistrationChange]) -> RenderableType:
    return render_list("", STEP, values, empty="nothing to change")


def render_channels(values: Iterable[ChannelStatus], now: float) -> RenderableType:
    return render_list("channels", CHANNEL, values, now, empty=UNREGISTERED)


def render_flows(values: Iterable[FlowStatus], now: float) -> RenderableType:
    return render_list("flows", FLOW, values, now, empty=UNREGISTERED)


def render_tasks(values: Iterable[FlowStatus]) -> RenderableType:
    headings = ("flow", *(column.heading for column in columns.TASK))
    rows = ([f.name, *(column.read(task, 0.0) for column in columns.TASK)] for f in values for task in f.tasks)
    return build_table("tasks", headings, rows)


def _format_watermark(watermark: Version | None, now: float) -> list[str]:
    return [] if watermark is None else [f"event time: watermark {fmt.format_age(fmt.to_timestamp(watermark), now)}"]


def format_reflected(values: Iterable[ReflectedVersions], now: float) -> list[str]:
    return [f"{' > '.join(r.pathway)}: {fmt.format_age(fmt.to_timestamp(r.latest_version), now)}" for r in values]


def format_consumer(value: ChannelConsumer) -> str:
    name = value.flow if value.flow == value.task else f"{value.flow}/{value.task}"
    behind = f"{fmt.format_plural(value.behind, 'block')} behind" if value.behind else "up to date"
    return f"{name} ({', '.join(value.modes)}): {behind}"


def _format_run_age(run: Run | None, now: float) -> str | None:
    return None if run is None else fmt.format_age(run.finished or run.started or run.created, now)


def format_run_duration(run: Run | None, now: float) -> str | None:
    return None if run is None else fmt.format_duration(run.started, run.finished, now)


def _format_figure(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"


def render_targets(values: Iterable[ChannelStatus]) -> RenderableType:
    with_targets = ((c.registered.channel.name, c.target_status) for c in values if c.target_status is not None)
    rows = ([name, *row] for name, status in with_targets for row in _build_target_rows(status))
    return build_table("freshness targets", ("channel", "measure", ">actual", ">target", "met"), rows, empty="none")


def _build_target_rows(status: TargetStatus) -> Iterable[list[object]]:
    for pathway, seconds in sorted(status.staleness.items()):
        bound = status.bounds.get(pathway)
        verdict = NONE if bound is None else _show_verdict(seconds <= bound, "late")
        yield [f"staleness by {' > '.join(pathway)}", format_span(seconds), _format_span(bound), verdict]
    if status.consistency is not None and status.inconsistency is not None:
        inconsistency, bound = max(0.0, status.inconsistency), status.consistency
        verdict = _show_verdict(not status.is_inconsistent, "missed")
        yield ["inconsistency", format_span(inconsistency), format_span(bound) if bound else "strict", verdict]
    if not status.staleness:
        yield ["staleness", "never written", NONE, NONE]


def _show_verdict(is_met: bool, problem: str) -> TableCell:
    return TableCell("yes", tone="fresh") if is_met else TableCell(problem, tone="failed")


def _format_span(seconds: float | None) -> str:
    return NONE if seconds is None else format_span(seconds)


def render_staleness(history: StalenessHistory, since: float, now: float) -> RenderableType:
    worst = {
        c.table: max(value for _, value in c.points)
        for c in staleness.compute_curves(history, StalenessMeasure.STALENESS, since, now)
    }
    figures = {
        name: [*(staleness.measure_staleness(history, name, m, now) for m in StalenessMeasure), worst.get(name)]
        for name in sorted(history.provenance)
    }
    rows = ([name, *map(_format_span, values)] for name, values in figures.items())
    return build_table("staleness", ("table", ">staleness", ">age", ">recent worst"), rows, empty="no table yet")


def format_weighted_staleness(history: StalenessHistory, since: float, now: float) -> str:
    """Format the staleness of all tables, weighted by priority: now, and on average over time."""
    summed = staleness.sum_curves(
        staleness.compute_curves(history, StalenessMeasure.STALENESS, since, now), history.weights
    )
    if not summed.points:
        return "all tables by priority: nothing yet"
    latest, mean = summed.points[-1][1], summed.integral / (now - since)
    return f"all tables by priority: {format_span(latest)} now, {format_span(mean)} recent average"
