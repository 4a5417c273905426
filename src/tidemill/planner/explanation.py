"""Why a table is refreshed the way it is: what `explain` says, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.algebra.describe import describe_operator, format_headline
from tidemill.algebra.operators import Operator, Scan, StepReference, walk_operators
from tidemill.algebra.program import DeclaredQuery, Program, RefreshMode
from tidemill.algebra.states import State
from tidemill.model.block import BlockKind
from tidemill.model.task import ReadMode, Refresh, Task, TaskOutput, Variant
from tidemill.model.time import Version
from tidemill.planner.catalog_state import PlanDecision
from tidemill.planner.graph import BlockNode
from tidemill.planner.refresh_mode import RefreshChoice, RefreshOption


@dataclass(frozen=True, slots=True)
class StateExplanation:
    """A state channel: whose state it is, what it holds, and how a refresh changes it."""

    channel: str
    widget: str
    columns: tuple[str, ...]
    updates: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VariantExplanation:
    """A variant: what it reads and writes, and what it would cost now or why it is impossible."""

    name: str
    reads: tuple[tuple[str, tuple[ReadMode, ...]], ...]
    writes: tuple[
        tuple[str, BlockKind, str | None], ...
    ]  # how a delta is encoded, if not as the channel gives its changes
    rows: int | None = None  # to look at; None: not known
    seconds: float | None = None
    obstacle: str = ""  # why it is impossible; empty: it is possible


@dataclass(frozen=True, slots=True)
class ProgramLine:
    """A step of the incremental program, or what it writes at the end: what it looks at, and its operators."""

    name: str
    looks_at: tuple[str, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriterExplanation:
    """How one task writes the table. `refresh` is None for a programmed task, `way` while nobody can tell."""

    flow: str
    task: str
    location: str
    refresh: str | None
    way: str | None  # the variant that would run now
    why: str
    widgets: tuple[str, ...]  # one a line, inputs indented below
    states: tuple[StateExplanation, ...]
    variants: tuple[VariantExplanation, ...]
    program: tuple[ProgramLine, ...]  # of the incremental variant, if everything it reads had changed


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan: what it takes in of which channels, and what that would cost."""

    task: str
    variant: str
    reads: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class RejectedStep:
    """Another way to the goal, and why it is not taken."""

    task: str
    variant: str
    reason: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class PlanExplanation:
    """What would be done to keep what is promised of the table: now, or if somebody asked for all that has arrived."""

    due: float | None  # seconds from now until a promise would be broken; None: not in sight
    now: bool  # is something to be done now?
    steps: tuple[PlannedStep, ...]
    refused: tuple[RejectedStep, ...]
    seconds: float | None  # None: there is no plan that keeps every promise


@dataclass(frozen=True, slots=True)
class TableExplanation:
    """A table, and everything that writes it; a plan, if something is promised of it."""

    table: str
    writers: tuple[WriterExplanation, ...]
    plan: PlanExplanation | None = None
    compaction: str | None = None  # whether it is due, and why; None: nothing was written yet
    together: str | None = None  # whether one run for it and what is due with it would be better; None: nobody can say


def explain_plan(decision: PlanDecision, otherwise: PlanDecision, now: Version) -> PlanExplanation:
    """The decision; where nothing is to be done, what would be if somebody asked."""
    acting = decision if decision.steps else otherwise
    due = None if decision.due is None else max(0.0, (decision.due - now) / 1e6)
    answer = acting.answer
    refused = () if answer is None else answer.rejected
    return PlanExplanation(
        due,
        bool(decision.steps),
        tuple(PlannedStep(s.task, s.variant, tuple(map(_describe_read, s.reads)), s.cost) for s in acting.steps),
        tuple(RejectedStep(r.task, r.variant, str(r.reason), r.cost) for r in refused),
        None if answer is None or answer.plan is None else answer.plan.cost,
    )


def _describe_read(block: BlockNode) -> str:
    if block.source is None:
        return f"all of {block.channel}"
    return f"{block.channel} as it was" if block.source == block.target else f"changes of {block.channel}"


def explain_writer(flow: str, task: Task, choice: RefreshChoice | None) -> WriterExplanation:
    """How a task writes its tables; `choice` is None where nothing is chosen, or nothing can be said yet."""
    query = find_query(task)
    return WriterExplanation(
        flow,
        task.name,
        str(task.location),
        task.refresh,
        _find_mode(task, choice),
        _explain_choice(task, choice),
        () if query is None else tuple(describe_operator(query.root).splitlines()),
        () if query is None else tuple(_explain_state(op, state) for op, state in query.build_states().items()),
        tuple(_explain_variants(task, choice)),
        () if query is None else tuple(_explain_program(query.build_incremental(query.channels))),
    )


def find_query(task: Task) -> DeclaredQuery | None:
    """What a declared table is made of; None if it is only known as text, or if the task is programmed."""
    code = task.variant.code
    return code.query if isinstance(code, Refresh) else None


def _find_mode(task: Task, choice: RefreshChoice | None) -> str | None:
    if choice is not None:
        return choice.way
    return task.variant.name if task.refresh is None else None


def _explain_choice(task: Task, choice: RefreshChoice | None) -> str:
    if choice is not None:
        return choice.why
    if task.refresh is None:
        return "a programmed task runs as it stands"
    return "it is not registered as it is declared; after apply, what a run would do is known"


def _explain_state(op: Operator, state: State) -> StateExplanation:
    return StateExplanation(
        state.channel, format_headline(op), state.scan_state().columns, state.updates.name, state.updates.key
    )


def _explain_variants(task: Task, choice: RefreshChoice | None) -> Iterator[VariantExplanation]:
    # A query that is known only as text was not weighed: there is nothing else to choose.
    options = {o.way: o for o in choice.options} if choice is not None and find_query(task) is not None else {}
    obstacle = options[RefreshMode.INCREMENTAL].reason if options else task.batch_because or ""
    for variant in task.variants:
        anew = variant.name in (RefreshMode.BATCH, RefreshMode.RECOMPUTE)
        yield _explain_variant(variant, options.get(variant.name), "" if anew else obstacle)
    if task.batch_because is not None:
        yield VariantExplanation(RefreshMode.INCREMENTAL, (), (), obstacle=task.batch_because)


def _explain_variant(variant: Variant, option: RefreshOption | None, obstacle: str) -> VariantExplanation:
    ports = dict.fromkeys(r.port for r in variant.reads)
    reads = tuple((port, tuple(r.mode for r in variant.reads if r.port == port)) for port in ports)
    writes = tuple((w.port, w.kind, _find_encoding(w)) for w in variant.writes if not w.void)
    if option is None:
        return VariantExplanation(variant.name, reads, writes, obstacle=obstacle)
    return VariantExplanation(variant.name, reads, writes, option.rows, option.seconds, obstacle)


def _find_encoding(write: TaskOutput) -> str | None:
    return None if write.updates is None else write.updates.name


def _explain_program(program: Program) -> Iterator[ProgramLine]:
    for name, op in program.steps.items():
        yield _build_line(name, op)
    for output in program.outputs:
        if output.rows is not None:
            yield _build_line(f"delta of {output.channel}", output.rows)


def _build_line(name: str, op: Operator) -> ProgramLine:
    return ProgramLine(name, tuple(dict.fromkeys(_list_sources(op))), tuple(describe_operator(op).splitlines()))


def _list_sources(op: Operator) -> Iterator[str]:
    for below in walk_operators(op):
        if isinstance(below, Scan):
            yield f"{below.channel} ({below.at})"
        elif isinstance(below, StepReference):
            yield below.step
