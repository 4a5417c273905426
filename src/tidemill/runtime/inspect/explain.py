"""Explains a table: its tasks as the workflow files declare them, compared with the catalog's state."""

from collections.abc import Iterator, Mapping, Sequence

from tidemill.errors import NotFound
from tidemill.model.change import Updates
from tidemill.model.flow import BoundFlow
from tidemill.model.run import RunState, StepReport
from tidemill.model.task import Refresh, Task
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.explanation import PlanExplanation, TableExplanation, explain_plan, explain_writer
from tidemill.ports.catalog import CatalogReader, FlowQueries
from tidemill.runtime.freshness.advice import advise_refresh_group
from tidemill.runtime.freshness.planning import PlanningContext
from tidemill.runtime.maintenance.compaction import explain_compaction


def explain_table(
    catalog: CatalogReader, workflows: Sequence[WorkflowSpec], updates: Mapping[str, Updates], table: str
) -> TableExplanation:
    """Explain how a table is written, its possible refresh modes, and the one that a run would take now."""
    writer_tasks = [(binding, task) for name, binding, task in _list_tables(workflows) if name == table]
    if not writer_tasks:
        names = ", ".join(sorted({name for name, _, _ in _list_tables(workflows)}))
        raise NotFound(f"no table {table!r} is declared; the tables are {names or 'none'}")
    workflow = next(w for w in workflows if writer_tasks[0][0] in w.bindings)
    context = PlanningContext(catalog, updates, workflow)
    applied = _find_applied_flows(catalog.flows, workflow)
    choices = {b.name: context.choose_variants(b)[1] for b, _ in writer_tasks if b.name in applied}
    writers = tuple(
        explain_writer(b.name, t, choices.get(b.name, {}).get(t.name), read_last_steps(catalog, b.name, t.name))
        for b, t in writer_tasks
    )
    plan = _build_plan(context, table) if applied == {b.name for b in workflow.bindings} else None
    registered = any(c.channel.name == table for c in catalog.channels.list())
    compaction = explain_compaction(catalog, updates, table) if registered else None
    advice = advise_refresh_group(catalog, workflows, writer_tasks[0][0])
    return TableExplanation(table, writers, plan, compaction, advice)


def read_last_steps(catalog: CatalogReader, flow: str, task: str) -> tuple[StepReport, ...]:
    """The steps of a task in the last run of its flow that finished."""
    runs = catalog.runs.list(state=RunState.FINISHED, subject=flow, limit=1)
    return tuple(step for run in runs for step in run.list_steps().get(task, ()))


def _build_plan(context: PlanningContext, table: str) -> PlanExplanation | None:
    """Explain the plan for a table with a freshness target; None without one."""
    if not context.find_target(table):
        return None
    due, fresh = context.decide_refresh(table), context.decide_refresh(table, fresh=True)
    return explain_plan(due, fresh, context.decision_request.state.now)


def _list_tables(workflows: Sequence[WorkflowSpec]) -> Iterator[tuple[str, BoundFlow, Task]]:
    for binding in (b for w in workflows for b in w.bindings):
        for task in binding.tasks:
            yield from ((name, binding, task) for name in _list_results(task))


def _list_results(task: Task) -> list[str]:
    """List the public output channels of a task."""
    code = task.variant.code
    return [w.port for w in task.writes if not isinstance(code, Refresh) or w.argument == code.table]


def _find_applied_flows(flows: FlowQueries, workflow: WorkflowSpec) -> set[str]:
    """Return the flows that are registered as they are declared."""
    registered = {b.name: b.identity for b in flows.list()}
    return {b.name for b in workflow.bindings if registered.get(b.name) == b.compute_identity()}
