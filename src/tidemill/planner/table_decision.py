"""The decision for a run of one declared table that must be fresh now: all that arrived before the run is reflected.

The planner's graph is the table's task alone, and its inputs are the channels that the task reads. They have two
versions there: the one that the last refresh consumed, and the one that the run reads. So even a run to which nothing
new arrived has a plan, which reads an empty change.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidemill.algebra.program import RefreshMode, VariantName
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.freshness_target import NO_TARGET
from tidemill.model.provenance import Provenance
from tidemill.model.task import Task
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner import refresh_mode as modes
from tidemill.planner.catalog_state import CatalogState, ChannelPoint, DecisionRequest
from tidemill.planner.cost import CostModels
from tidemill.planner.graph import EMPTY, BlockNode, DataSize, PlanningGraph
from tidemill.planner.workflow_graph import build_graph

CONSUMED, RUN, NOW = 1, 2, 3
"""The version of all inputs that the last refresh consumed, the one that the run reads, and the time after both."""


@dataclass(frozen=True, slots=True)
class TableDecision:
    """How a declared table is refreshed, and the block that this writes, with its estimated size."""

    choice: modes.RefreshChoice
    result: BlockNode


def decide_table(
    task: Task, table: modes.TableState, models: CostModels, requested: str | None = None
) -> TableDecision | None:
    """Decide how to refresh a table now; None if the requested variant is impossible. `models`: of past runs."""
    completed = modes.complete_cost_models(models, (v.name for v in task.variants), 1)
    names = [v.name for v in task.variants if VariantName.from_text(v.name).channel is None]  # which reflect all inputs
    obstacle = table.find_obstacle()
    if requested is None:
        possible = modes.find_possible_variants(table, names, completed)
        usable = modes.select_declared_variants(possible, task.refresh or "auto")
    elif obstacle is None or VariantName.from_text(requested).mode != RefreshMode.INCREMENTAL:
        usable = frozenset({VariantName.from_text(requested).mode})
    else:
        return None
    request = DecisionRequest(
        _build_table_graph(task, table, usable),
        _build_state(task, table),
        {(task.name, name): model for name, model in models.items()},
    )
    (*_, step) = request.decide_refresh(_get_result(task), NO_TARGET, fresh=True).steps
    reason = _explain_choice(task, table, obstacle) if requested is None else f"variant {requested!r} was requested"
    choice = modes.RefreshChoice(requested or step.variant, reason, tuple(_list_options(table, completed, obstacle)))
    return TableDecision(choice, step.writes[0])


def _get_result(task: Task) -> str:
    return task.writes[-1].port


def _build_table_graph(task: Task, table: modes.TableState, usable: frozenset[str]) -> PlanningGraph:
    inputs = (Channel(r.channel, ChannelRole.INPUT) for r in table.readings)
    channels = (*inputs, Channel(_get_result(task), ChannelRole.DERIVED))
    workflow = WorkflowSpec(task.name, channels, (BoundFlow(task.name, (task,)),))
    return build_graph(workflow, lambda _flow, _task, variant: variant.name in usable)


def _build_state(task: Task, table: modes.TableState) -> CatalogState:
    """Build the state before the run: the result reflects the last refresh; each input has its content and change."""
    heads = {r.channel: ChannelPoint(_reach([r.channel], RUN), DataSize(r.content, r.bytes)) for r in table.readings}
    changes = {r.channel: DataSize(r.change, r.change_bytes) for r in table.readings if r.consumed}
    cursors = {(task.name, c): ChannelPoint(_reach([c], CONSUMED), size) for c, size in changes.items()}
    result = ChannelPoint(_reach(changes, CONSUMED), EMPTY)
    arrivals = {r.channel: (CONSUMED, RUN) for r in table.readings}
    return CatalogState({**heads, _get_result(task): result}, cursors, arrivals, NOW)


def _reach(channels: Iterable[str], version: int) -> Provenance:
    return Provenance.from_pathways({(channel,): (version,) for channel in channels})


def _explain_choice(task: Task, table: modes.TableState, obstacle: str | None) -> str:
    if obstacle is not None:
        return obstacle
    if task.refresh != "auto":
        return f"refresh is {task.refresh!r}"
    return f"{table.change} of {table.content} rows changed"


def _list_options(table: modes.TableState, models: CostModels, obstacle: str | None) -> Iterator[modes.RefreshOption]:
    """List the modes that were compared, with the cost of each, or why it is impossible."""
    size = table.full_volume.bytes
    for mode in (RefreshMode.BATCH, RefreshMode.RECOMPUTE)[: 1 if table.state is modes.StateStatus.NONE else 2]:
        yield modes.RefreshOption(mode, table.content, modes.estimate_refresh(mode, models, table.full_volume, size))
    seconds = modes.estimate_refresh(RefreshMode.INCREMENTAL, models, table.change_volume, size)
    yield modes.RefreshOption(RefreshMode.INCREMENTAL, table.change, None if obstacle else seconds, obstacle or "")
