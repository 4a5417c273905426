"""How flows and channels stand: one word for the colour, and a few more for the reason. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidemill.model.channel import Role
from tidemill.model.run import UNDER_WAY, Run, RunKind, RunState
from tidemill.ports.records import RegisteredTrigger
from tidemill.runtime.inspect.status import ChannelStatus, FlowStatus
from tidemill.ui.formatting import first_line, plural, span
from tidemill.ui.snapshot import Snapshot

GRACE = 30.0
"""Seconds that a due trigger, or a run that waits for a track, may take before it is called late."""


SLACK = 5.0
"""Seconds beyond a promise that are not told: it takes a moment to begin."""


class Standing(StrEnum):
    """In the order in which they are told where several hold."""

    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"  # the last run did
    LATE = "late"  # a trigger is overdue, a run found no track, or a promise is broken
    WAITING = "waiting"  # there are blocks that were not read
    EMPTY = "empty"  # nothing ever came
    FRESH = "fresh"  # nothing waits


_ORDER = tuple(Standing)
_QUIET = (Standing.FRESH, Standing.EMPTY)


@dataclass(frozen=True, slots=True)
class Judgement:
    """How something stands, and why."""

    standing: Standing
    why: str


@dataclass(frozen=True, slots=True)
class Standings:
    """All judgements, by name."""

    flows: Mapping[str, Judgement]
    channels: Mapping[str, Judgement]


def judged(snapshot: Snapshot, now: float) -> Standings:
    flows: dict[str, Judgement] = {}
    for flow in snapshot.status.flows:
        _with_sources(snapshot, flow, now, flows)
    return Standings(flows, {c.registered.channel.name: _channel(snapshot, flows, c) for c in snapshot.status.channels})


def overdue(trigger: RegisteredTrigger, now: float) -> bool:
    return not trigger.paused and trigger.due is not None and trigger.due + GRACE < now


def _flow(snapshot: Snapshot, flow: FlowStatus, now: float) -> Iterator[Judgement]:
    """Everything that can be said of a flow."""
    for run in _active(snapshot, flow.name):
        yield _under_way(run, now)
    if flow.workflow in snapshot.paused:
        yield Judgement(Standing.PAUSED, f"workflow {flow.workflow} is paused")
    if flow.last is not None and flow.last.state is RunState.FAILED:
        yield Judgement(Standing.FAILED, _said(flow, flow.last))
    for trigger in snapshot.triggers_of(flow.name):
        if trigger.due is not None and overdue(trigger, now):
            yield Judgement(Standing.LATE, f"{trigger.leaf} was due {span(now - trigger.due)} ago")
    for channel in snapshot.status.channels:
        if flow in snapshot.writers(channel.registered.channel.name):
            yield from _broken(channel)
    for name, blocks in snapshot.unread(flow.name).items():
        yield Judgement(Standing.WAITING, f"{plural(blocks, 'block')} on {name}")
    if flow.last is None:
        yield Judgement(Standing.EMPTY, "never run")
    yield Judgement(Standing.FRESH, "nothing waits")


def _broken(channel: ChannelStatus) -> Iterator[Judgement]:
    """What was promised of a channel and is not so."""
    if channel.kept is None:
        return
    for pathway, bound in channel.kept.bounds.items():
        over = channel.kept.stale.get(pathway, 0.0) - bound
        if over > SLACK:
            yield Judgement(Standing.LATE, f"staler by {span(over)} than promised, by way of {' > '.join(pathway)}")
    if channel.kept.inconsistent:
        yield Judgement(Standing.LATE, "less consistent than promised")


def _said(flow: FlowStatus, run: Run) -> str:
    """Why a run failed; which task and where it stands are told elsewhere."""
    error = first_line(run.error)
    for task in flow.tasks:
        error = error.removeprefix(f"task {task.name} ({task.location}): ")
    return error or "it gave no reason"


def _active(snapshot: Snapshot, flow: str) -> list[Run]:
    return [r for r in snapshot.status.active if r.subject == flow and r.kind is RunKind.FLOW]


def _under_way(run: Run, now: float) -> Judgement:
    if run.state in UNDER_WAY:
        return Judgement(Standing.RUNNING, f"run {run.id}")
    since = max(run.created, run.not_before or 0.0)
    late = since + GRACE < now
    again = f"run {run.id} is tried again" if run.attempt else f"run {run.id} waits for a track"
    return Judgement(Standing.LATE if late else Standing.WAITING, again)


def _with_sources(snapshot: Snapshot, flow: FlowStatus, now: float, known: dict[str, Judgement]) -> Judgement:
    """A flow for which nothing waits is still not fresh if what it reads is not. What was judged is in `known`."""
    if flow.name not in known:
        known[flow.name] = own = _first(_flow(snapshot, flow, now))
        if own.standing in _QUIET:
            above = {s: _with_sources(snapshot, f, now, known) for s, f in _sources(snapshot, flow)}
            behind = (_waits_for(source, j) for source, j in above.items() if j.standing not in _QUIET)
            known[flow.name] = _first((own, *behind))
    return known[flow.name]


def _sources(snapshot: Snapshot, flow: FlowStatus) -> Iterator[tuple[str, FlowStatus]]:
    """What a flow reads of others, and who writes it."""
    for source in sorted({c for t in flow.tasks for c, _ in t.reads}):
        yield from ((source, writer) for writer in snapshot.writers(source) if writer.name != flow.name)


def _waits_for(source: str, judgement: Judgement) -> Judgement:
    return Judgement(Standing.WAITING, f"{source} is {judgement.standing}")


def _channel(snapshot: Snapshot, flows: Mapping[str, Judgement], channel: ChannelStatus) -> Judgement:
    """A channel stands as whoever writes it."""
    if channel.registered.channel.role is Role.INPUT:
        return _first((*_input(snapshot, channel), *_content(channel)))
    writers = snapshot.writers(channel.registered.channel.name)
    return _first((*(flows[w.name] for w in writers), *_content(channel)))


def _input(snapshot: Snapshot, channel: ChannelStatus) -> Iterator[Judgement]:
    behind = max((c.behind for c in channel.consumers if c in snapshot.behind), default=0)
    if channel.registered.reserved:
        yield Judgement(Standing.RUNNING, "an insert is under way")
    if behind:
        yield Judgement(Standing.WAITING, f"{plural(behind, 'block')} unread")


def _content(channel: ChannelStatus) -> Iterator[Judgement]:
    if not channel.registered.head.seq:
        yield Judgement(Standing.EMPTY, "no data yet")
    yield Judgement(Standing.FRESH, "nothing waits")


def _first(said: Iterable[Judgement]) -> Judgement:
    return min(said, key=lambda j: _ORDER.index(j.standing))
