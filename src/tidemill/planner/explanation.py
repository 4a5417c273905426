"""Explains how and why a table is refreshed: the result of `explain`, as data."""

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.algebra.describe import describe_operator, format_headline
from tidemill.algebra.operators import Operator, Scan, StepReference, walk_operators
from tidemill.algebra.program import Program, RefreshMode
from tidemill.algebra.states import State
from tidemill.model.block import BlockKind
from tidemill.model.run import StepReport
from tidemill.model.task import ReadMode, Task, Variant
from tidemill.model.time import Version
from tidemill.planner.catalog_state import PlanDecision
from tidemill.planner.graph import BlockNode
from tidemill.planner.refresh_mode import RefreshChoice, RefreshOption
from tidemill.planner.workflow_graph import find_query


@dataclass(frozen=True, slots=True)
class StateExplanation:
    """A state channel: its operator, its columns, and how a refresh changes it."""

    channel: str
    operator: str
    columns: tuple[str, ...]
    updates: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VariantExplanation:
    """A variant: its inputs and outputs, and its cost now or why it is impossible."""

    name: str
    reads: tuple[tuple[str, tuple[ReadMode, ...]], ...]
    writes: tuple[tuple[str, BlockKind, str | None], ...]  # with a delta's encoding, if not the channel's own
    rows: int | None = None  # to read; None: unknown
    seconds: float | None = None
    unsupported_reason: str = ""  # why it is impossible; empty: it is possible


@dataclass(frozen=True, slots=True)
class ProgramLine:
    """A step or an output of the incremental program: its sources, and its operators."""

    name: str
    inputs: tuple[str, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriterExplanation:
    """How one task writes the table. `refresh` is None for a programmed task, `mode` while it is unknown."""

    flow: str
    task: str
    location: str
    refresh: str | None
    mode: str | None  # the variant that would run now
    reason: str
    operators: tuple[str, ...]  # one operator per line, its inputs indented below
    states: tuple[StateExplanation, ...]
    variants: tuple[VariantExplanation, ...]
    program: tuple[ProgramLine, ...]  # of the incremental variant, if all its inputs had changed
    steps: tuple[StepReport, ...] = ()  # of the last run


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan: the parts of channels that it reads, and its cost."""

    task: str
    variant: str
    reads: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class RejectedStep:
    """An alternative step to the goal, and why it was rejected."""

    task: str
    variant: str
    reason: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class PlanExplanation:
    """The plan that meets the table's freshness target: now, or the one that would refresh it to all data."""

    due: float | None  # seconds from now until the target would be missed; None: not foreseeable
    is_due: bool  # whether there is work to do now
    steps: tuple[PlannedStep, ...]
    rejected: tuple[RejectedStep, ...]
    seconds: float | None  # None: no plan meets every freshness target


@dataclass(frozen=True, slots=True)
class TableExplanation:
    """A table with all tasks that write it; with a plan, if it has a freshness target."""

    table: str
    writers: tuple[WriterExplanation, ...]
    plan: PlanExplanation | None = None
    compaction: str | None = None  # whether it is due, and why; None: nothing was written yet
    group_advice: str | None = None  # whether a refresh group would be better; None: unknown


def explain_plan(decision: PlanDecision, on_request: PlanDecision, now: Version) -> PlanExplanation:
    """Explain the decision; if nothing is due, explain `on_request`, the decision on request."""
    shown = decision if decision.steps else on_request
    due = None if decision.due is None else max(0.0, (decision.due - now) / 1e6)
    answer = shown.result
    refused = () if answer is None else answer.rejected
    return PlanExplanation(
        due,
        bool(decision.steps),
        tuple(PlannedStep(s.task, s.variant, tuple(map(_describe_read, s.reads)), s.cost) for s in shown.steps),
        tuple(RejectedStep(r.task, r.variant, str(r.reason), r.cost) for r in refused),
        None if answer is None or answer.plan is None else answer.plan.cost,
    )


def _describe_read(block: BlockNode) -> str:
    if block.source is None:
        return f"all of {block.channel}"
    return f"{block.channel} as it was" if block.source == block.target else f"changes of {block.channel}"


def explain_writer(
    flow: str, task: Task, choice: RefreshChoice | None, steps: tuple[StepReport, ...] = ()
) -> WriterExplanation:
    """Explain how a task writes its tables; `choice` is None if unknown, `steps` are those of its last run."""
    query = find_query(task)
    return WriterExplanation(
        flow,
        task.name,
        str(task.location),
        task.refresh,
        choice.mode if choice is not None else task.variant.name if task.refresh is None else None,
        _explain_choice(task, choice),
        () if query is None else tuple(describe_operator(query.root).splitlines()),
        () if query is None else tuple(_explain_state(op, state) for op, state in query.build_states().items()),
        tuple(_explain_variants(task, choice)),
        () if query is None else tuple(_explain_program(query.build_incremental(query.channels))),
        steps,
    )


def _explain_choice(task: Task, choice: RefreshChoice | None) -> str:
    if choice is not None:
        return choice.reason
    if task.refresh is None:
        return "a programmed task has one variant"
    return "it is not applied as it is declared; apply it to see its refresh mode"


def _explain_state(op: Operator, state: State) -> StateExplanation:
    columns, updates = state.scan_state().columns, state.updates
    return StateExplanation(state.channel, format_headline(op), columns, updates.name, updates.key)


def _explain_variants(task: Task, choice: RefreshChoice | None) -> Iterator[VariantExplanation]:
    # The modes of a query that is known only as text were not compared: it has only one.
    options = {o.mode: o for o in choice.options} if choice is not None and find_query(task) is not None else {}
    obstacle = options[RefreshMode.INCREMENTAL].reason if options else task.batch_reason or ""
    for variant in task.variants:
        recomputes = variant.name in (RefreshMode.BATCH, RefreshMode.RECOMPUTE)
        yield _explain_variant(variant, options.get(variant.name), "" if recomputes else obstacle)
    if task.batch_reason is not None:
        yield VariantExplanation(RefreshMode.INCREMENTAL, (), (), unsupported_reason=task.batch_reason)


def _explain_variant(variant: Variant, option: RefreshOption | None, obstacle: str) -> VariantExplanation:
    ports = dict.fromkeys(r.port for r in variant.reads)
    reads = tuple((port, tuple(r.mode for r in variant.reads if r.port == port)) for port in ports)
    encodings = ((w, None if w.updates is None else w.updates.name) for w in variant.writes if not w.void)
    writes = tuple((w.port, w.kind, encoding) for w, encoding in encodings)
    rows, seconds = (None, None) if option is None else (option.rows, option.seconds)
    return VariantExplanation(variant.name, reads, writes, rows, seconds, obstacle)


def _explain_program(program: Program) -> Iterator[ProgramLine]:
    deltas = {f"delta of {channel}": rows for channel, rows in program.outputs.items() if rows is not None}
    for name, op in {**program.steps, **deltas}.items():
        yield ProgramLine(name, tuple(dict.fromkeys(_list_sources(op))), tuple(describe_operator(op).splitlines()))


def _list_sources(op: Operator) -> Iterator[str]:
    for operator in walk_operators(op):
        if isinstance(operator, Scan):
            yield f"{operator.channel} ({operator.mode})"
        elif isinstance(operator, StepReference):
            yield operator.step
