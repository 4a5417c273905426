"""Values of the model as tables for people. `now` is an argument: times are shown relative to it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from tidemill.app.serialization import moment
from tidemill.cli.formatting import NONE, ago, count, lasted, plural, size
from tidemill.cli.output import table
from tidemill.model.block import Block, BlockState
from tidemill.model.change import Updates
from tidemill.model.channel import Channel
from tidemill.model.registration import Action, Step
from tidemill.model.run import Run, RunState
from tidemill.model.time import Version
from tidemill.planner.catalog_state import Kept
from tidemill.ports.records import Event
from tidemill.runtime.freshness.staleness import History, Measure, curves, measured, total
from tidemill.runtime.inspect.statistics import TaskStatistics
from tidemill.runtime.inspect.status import ChannelStatus, Consumer, FlowStatus, Reflected, TaskStatus

_STYLES = {
    Action.ADD: "green",
    Action.CHANGE: "yellow",
    Action.REMOVE: "red",
    RunState.CLAIMED: "cyan",
    RunState.SUBMITTED: "cyan",
    RunState.RUNNING: "cyan",
    RunState.FINISHED: "green",
    RunState.FAILED: "red",
    RunState.KILLED: "red",
    BlockState.RESERVED: "cyan",
    BlockState.CANCELLED: "red",
    BlockState.COLLECTED: "dim",
}


def state(value: Action | RunState | BlockState) -> Text:
    return Text(str(value), style=_STYLES.get(value, ""))


def steps(values: Iterable[Step]) -> RenderableType:
    rows = ([state(s.action), s.what, s.name, s.detail] for s in values)
    return table("", ("", "what", "name", "detail"), rows, empty="nothing to change")


def channels(values: Iterable[ChannelStatus], now: float) -> RenderableType:
    headings = (
        "channel",
        "role",
        "updates",
        ">head",
        ">rows",
        ">blocks",
        ">rows in blocks",
        ">size",
        "reflects",
        "consumers",
    )
    return table("channels", headings, (_channel(c, now) for c in values), empty="none; tidemill apply registers them")


def _channel(value: ChannelStatus, now: float) -> list[object]:
    known = value.registered
    return [
        known.channel.name,
        known.channel.role,
        updates(known.channel.updates),
        count(known.head.seq),
        NONE if value.rows is None else count(value.rows),
        count(known.blocks),
        count(known.rows),
        size(known.bytes),
        [reflected(r, now) for r in value.reflects] + _settled(value.edge, now),
        [consumer(c) for c in value.consumers],
    ]


def _settled(edge: Version | None, now: float) -> list[str]:
    return [] if edge is None else [f"event time: settled up to {ago(moment(edge), now)}"]


def promises(values: Iterable[ChannelStatus]) -> RenderableType:
    rows = (row for c in values if c.kept is not None for row in _promise(c.registered.channel, c.kept))
    return table("promises", ("channel", "of", ">is", ">promised", "kept"), rows, empty="none")


def _promise(channel: Channel, kept: Kept) -> Iterable[list[object]]:
    for pathway, stale in sorted(kept.stale.items()):
        bound = kept.bounds.get(pathway)
        verdict = NONE if bound is None else _verdict(stale <= bound, "late")
        yield [channel.name, f"staleness by {' > '.join(pathway)}", _seconds(stale), _seconds(bound), verdict]
    if kept.consistency is not None and kept.apart is not None:
        apart, bound = max(0.0, kept.apart), kept.consistency
        promised = _seconds(bound) if bound else "strict"
        yield [channel.name, "inconsistency", _seconds(apart), promised, _verdict(not kept.inconsistent, "broken")]
    if not kept.stale:
        yield [channel.name, "staleness", "never made", NONE, NONE]


def _verdict(kept: bool, else_: str) -> Text:
    return Text("yes", style="green") if kept else Text(else_, style="red")


def updates(value: Updates) -> str:
    return f"{value.name} ({', '.join(value.key)})" if value.key else value.name


def reflected(value: Reflected, now: float) -> str:
    return f"{' > '.join(value.pathway)}: {ago(moment(value.latest), now)}"


def consumer(value: Consumer) -> str:
    name = value.flow if value.flow == value.task else f"{value.flow}/{value.task}"
    behind = f"{plural(value.behind, 'block')} behind" if value.behind else "up to date"
    return f"{name} ({', '.join(value.modes)}): {behind}"


def staleness(found: History, since: float, now: float) -> RenderableType:
    worst = {c.table: max(value for _, value in c.points) for c in curves(found, Measure.STALENESS, since, now)}
    rows = ([name, *_measures(found, name, now), _seconds(worst.get(name))] for name in sorted(found.reaches))
    return table("staleness", ("table", ">staleness", ">age", ">worst lately"), rows, empty="no table yet")


def weighted(found: History, since: float, now: float) -> str:
    """All tables together, each by its priority: now, and on average over time."""
    summed = total(curves(found, Measure.STALENESS, since, now), found.weights)
    if not summed.points:
        return "all tables by priority: nothing yet"
    latest, mean = summed.points[-1][1], summed.integral / (now - since)
    return f"all tables by priority: {lasted(0.0, latest)} now, {lasted(0.0, mean)} on average lately"


def _measures(found: History, name: str, now: float) -> list[str]:
    return [_seconds(measured(found, name, measure, now)) for measure in (Measure.STALENESS, Measure.AGE)]


def _seconds(value: float | None) -> str:
    return NONE if value is None else lasted(0.0, value)


def statistics(values: Iterable[TaskStatistics]) -> RenderableType:
    headings = ("flow", "task", ">priority", ">seconds", ">makes", ">rows in/s", ">rows out/s", ">waiting")
    return table("tasks", headings, (_statistics(s) for s in values), empty="none; tidemill apply registers them")


def _statistics(value: TaskStatistics) -> list[object]:
    figures = (value.seconds, value.selectivity, value.input_rate, value.output_rate)
    shown = [NONE if f is None else f"{f:.3g}" for f in figures]
    return [value.flow, value.task, f"{value.priority:g}", *shown, plural(value.queue, "block")]


def flows(values: Iterable[FlowStatus], now: float) -> RenderableType:
    headings = ("flow", "tasks", "last run", "state", "when", ">took", "new data")
    return table("flows", headings, (_flow(f, now) for f in values), empty="none; tidemill apply registers them")


def _flow(value: FlowStatus, now: float) -> list[object]:
    last = value.last
    waiting = f"waits on {', '.join(value.waiting)}" if value.waiting else "none"
    run = [NONE, "never run", NONE, NONE] if last is None else [last.id, state(last.state), when(last, now), took(last)]
    return [value.name, [t.name for t in value.tasks], *run, waiting]


def tasks(values: Iterable[FlowStatus]) -> RenderableType:
    headings = ("flow", "task", "code", "reads", "writes", "declared in")
    return table("tasks", headings, ([f.name, *_task(t)] for f in values for t in f.tasks))


def _task(value: TaskStatus) -> list[object]:
    reads = [f"{channel} ({mode})" for channel, mode in value.reads]
    writes = [f"{channel} ({kind})" for channel, kind in value.writes]
    return [value.name, value.code, reads, writes, value.location]


def runs(title: str, values: Iterable[Run], now: float, *, empty: str = "none") -> RenderableType:
    headings = (">run", "kind", "of", "state", ">attempt", "when", ">took", "error")
    return table(title, headings, (_run(r, now) for r in values), empty=empty)


def _run(value: Run, now: float) -> list[object]:
    error = (value.error or "").partition("\n")[0]
    named = [value.id, value.kind, value.subject, state(value.state), value.attempt]
    return [*named, when(value, now), took(value), error]


def when(value: Run, now: float) -> str:
    return ago(value.finished or value.started or value.created, now)


def took(value: Run) -> str:
    return lasted(value.started, value.finished)


def blocks(title: str, values: Iterable[Block], now: float, *, empty: str = "none") -> RenderableType:
    headings = (">block", "channel", ">seq", "kind", "state", "made by", ">rows", ">size", ">files", "visible")
    return table(title, headings, (_block(b, now) for b in values), empty=empty)


def _block(value: Block, now: float) -> list[object]:
    # A derived block has no version of its own: it is as new as the newest input that it reflects.
    visible = ago(moment(value.version), now) if value.version is not None else NONE
    return [
        value.id,
        value.channel,
        value.seq,
        value.kind,
        state(value.state) + (", pinned" if value.pinned else ""),
        made_by(value),
        count(value.rows),
        size(value.bytes),
        len(value.files),
        visible,
    ]


def made_by(value: Block) -> str:
    run = "" if value.run is None else f" {value.run}"
    return f"{value.origin}{run}" + (f", {value.task}" if value.task else "")


def events(values: Iterable[Event], now: float) -> RenderableType:
    headings = (">event", "when", "kind", "of", ">run", "detail")
    rows = ([e.id, ago(e.at, now), e.kind, e.subject, e.run, _detail(e)] for e in values)
    return table("", headings, rows, empty="no events")


def _detail(event: Event) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in event.detail.items())


def _plain(value: object) -> object:
    return f"{value:.3f}" if isinstance(value, float) else value
