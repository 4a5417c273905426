"""Why a table is refreshed the way it is: what `explain` says, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.algebra.describe import described, headline
from tidemill.algebra.operators import Operator, Ref, Scan, walk
from tidemill.algebra.program import Program, Query, Way
from tidemill.algebra.states import State
from tidemill.model.block import Kind
from tidemill.model.task import Mode, Refresh, Task, Variant, Write
from tidemill.model.time import Version
from tidemill.planner.catalog_state import Decision
from tidemill.planner.graph import Block
from tidemill.planner.refresh_mode import Choice, Option


@dataclass(frozen=True, slots=True)
class Kept:
    """A state channel: whose state it is, what it holds, and how a refresh changes it."""

    channel: str
    widget: str
    columns: tuple[str, ...]
    updates: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Weighed:
    """A variant: what it reads and writes, and what it would cost now or why it is impossible."""

    name: str
    reads: tuple[tuple[str, tuple[Mode, ...]], ...]
    writes: tuple[tuple[str, Kind, str | None], ...]  # how a delta is encoded, if not as the channel gives its changes
    rows: int | None = None  # to look at; None: not known
    seconds: float | None = None
    obstacle: str = ""  # why it is impossible; empty: it is possible


@dataclass(frozen=True, slots=True)
class Line:
    """A step of the incremental program, or what it writes at the end: what it looks at, and its operators."""

    name: str
    looks_at: tuple[str, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """How one task writes the table. `refresh` is None for a programmed task, `way` while nobody can tell."""

    flow: str
    task: str
    location: str
    refresh: str | None
    way: str | None  # the variant that would run now
    why: str
    widgets: tuple[str, ...]  # one a line, inputs indented below
    states: tuple[Kept, ...]
    variants: tuple[Weighed, ...]
    program: tuple[Line, ...]  # of the incremental variant, if everything it reads had changed


@dataclass(frozen=True, slots=True)
class Planned:
    """One step of a plan: what it takes in of which channels, and what that would cost."""

    task: str
    variant: str
    reads: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """Another way to the goal, and why it is not taken."""

    task: str
    variant: str
    reason: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be done to keep what is promised of the table: now, or if somebody asked for all that has arrived."""

    due: float | None  # seconds from now until a promise would be broken; None: not in sight
    now: bool  # is something to be done now?
    steps: tuple[Planned, ...]
    refused: tuple[Refused, ...]
    seconds: float | None  # None: there is no plan that keeps every promise


@dataclass(frozen=True, slots=True)
class Explanation:
    """A table, and everything that writes it; a plan, if something is promised of it."""

    table: str
    writers: tuple[Written, ...]
    plan: Plan | None = None
    compaction: str | None = None  # whether it is due, and why; None: nothing was written yet
    together: str | None = None  # whether one run for it and what is due with it would be better; None: nobody can say


def plan_of(decision: Decision, otherwise: Decision, now: Version) -> Plan:
    """The decision; where nothing is to be done, what would be if somebody asked."""
    acting = decision if decision.steps else otherwise
    due = None if decision.due is None else max(0.0, (decision.due - now) / 1e6)
    answer = acting.answer
    refused = () if answer is None else answer.rejected
    return Plan(
        due,
        bool(decision.steps),
        tuple(Planned(s.task, s.variant, tuple(map(_taken, s.reads)), s.cost) for s in acting.steps),
        tuple(Refused(r.task, r.variant, str(r.reason), r.cost) for r in refused),
        None if answer is None or answer.plan is None else answer.plan.cost,
    )


def _taken(block: Block) -> str:
    if block.source is None:
        return f"all of {block.channel}"
    return f"{block.channel} as it was" if block.source == block.target else f"changes of {block.channel}"


def written(flow: str, task: Task, choice: Choice | None) -> Written:
    """How a task writes its tables; `choice` is None where nothing is chosen, or nothing can be said yet."""
    query = query_of(task)
    return Written(
        flow,
        task.name,
        str(task.location),
        task.refresh,
        _way(task, choice),
        _why(task, choice),
        () if query is None else tuple(described(query.root).splitlines()),
        () if query is None else tuple(_kept(op, state) for op, state in query.states().items()),
        tuple(_variants(task, choice)),
        () if query is None else tuple(_lines(query.incremental(query.channels))),
    )


def query_of(task: Task) -> Query | None:
    """What a declared table is made of; None if it is only known as text, or if the task is programmed."""
    code = task.variant.code
    return code.query if isinstance(code, Refresh) else None


def _way(task: Task, choice: Choice | None) -> str | None:
    if choice is not None:
        return choice.way
    return task.variant.name if task.refresh is None else None


def _why(task: Task, choice: Choice | None) -> str:
    if choice is not None:
        return choice.why
    if task.refresh is None:
        return "a programmed task runs as it stands"
    return "it is not registered as it is declared; after apply, what a run would do is known"


def _kept(op: Operator, state: State) -> Kept:
    return Kept(state.channel, headline(op), state.scan().columns, state.updates.name, state.updates.key)


def _variants(task: Task, choice: Choice | None) -> Iterator[Weighed]:
    # A query that is known only as text was not weighed: there is nothing else to choose.
    options = {o.way: o for o in choice.options} if choice is not None and query_of(task) is not None else {}
    obstacle = options[Way.INCREMENTAL].reason if options else task.batch_because or ""
    for variant in task.variants:
        anew = variant.name in (Way.BATCH, Way.RECOMPUTE)
        yield _weighed(variant, options.get(variant.name), "" if anew else obstacle)
    if task.batch_because is not None:
        yield Weighed(Way.INCREMENTAL, (), (), obstacle=task.batch_because)


def _weighed(variant: Variant, option: Option | None, obstacle: str) -> Weighed:
    ports = dict.fromkeys(r.port for r in variant.reads)
    reads = tuple((port, tuple(r.mode for r in variant.reads if r.port == port)) for port in ports)
    writes = tuple((w.port, w.kind, _encoding(w)) for w in variant.writes if not w.void)
    if option is None:
        return Weighed(variant.name, reads, writes, obstacle=obstacle)
    return Weighed(variant.name, reads, writes, option.rows, option.seconds, obstacle)


def _encoding(write: Write) -> str | None:
    return None if write.updates is None else write.updates.name


def _lines(program: Program) -> Iterator[Line]:
    for name, op in program.steps.items():
        yield _line(name, op)
    for output in program.outputs:
        if output.rows is not None:
            yield _line(f"delta of {output.channel}", output.rows)


def _line(name: str, op: Operator) -> Line:
    return Line(name, tuple(dict.fromkeys(_sources(op))), tuple(described(op).splitlines()))


def _sources(op: Operator) -> Iterator[str]:
    for below in walk(op):
        if isinstance(below, Scan):
            yield f"{below.channel} ({below.at})"
        elif isinstance(below, Ref):
            yield below.step
