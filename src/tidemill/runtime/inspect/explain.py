"""Explains a table: its tasks as the workflow files declare them, compared with the catalog's state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidemill.errors import NotFound
from tidemill.model.change import Updates
from tidemill.model.flow import BoundFlow
from tidemill.model.task import Refresh, Task
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.explanation import PlanExplanation, TableExplanation, explain_plan, explain_writer
from tidemill.planner.refresh_mode import RefreshChoice
from tidemill.ports.catalog import CatalogReader
from tidemill.runtime.freshness.planning import PlanningContext
from tidemill.runtime.freshness.refresh_groups import advise_refresh_group
from tidemill.runtime.freshness.refresh_mode import choose_variants
from tidemill.runtime.maintenance.compaction import explain_compaction


def explain_table(
    catalog: CatalogReader, workflows: Sequence[WorkflowSpec], updates: Mapping[str, Updates], table: str
) -> TableExplanation:
    """Explain how a table is written, its possible refresh modes, and the one that a run would take now."""
    writer_tasks = [(binding, task) for name, binding, task in _list_tables(workflows) if name == table]
    if not writer_tasks:
        names = ", ".join(sorted({name for name, _, _ in _list_tables(workflows)}))
        raise NotFound(f"no table {table!r} is declared; the tables are {names or 'none'}")
    choices = {b.name: _choose_variants(catalog, b, updates) for b, _ in writer_tasks}
    writers = tuple(explain_writer(b.name, t, choices[b.name].get(t.name)) for b, t in writer_tasks)
    plan = _build_plan(catalog, workflows, updates, table)
    registered = any(c.channel.name == table for c in catalog.list_channels())
    compaction = explain_compaction(catalog, updates, table) if registered else None
    return TableExplanation(
        table, writers, plan, compaction, advise_refresh_group(catalog, workflows, writer_tasks[0][0])
    )


def _build_plan(
    catalog: CatalogReader, workflows: Sequence[WorkflowSpec], updates: Mapping[str, Updates], table: str
) -> PlanExplanation | None:
    """Explain the plan for a table with a freshness target; None without one, or if the workflow is not applied."""
    workflow = next(w for w in workflows if w.find_channel(table) is not None)
    registered = {b.name: b.identity for b in catalog.list_bindings()}
    if any(registered.get(b.name) != b.compute_identity() for b in workflow.bindings):
        return None
    context = PlanningContext(catalog, updates, workflow, catalog.read_time())
    if not context.find_target(table):
        return None
    return explain_plan(
        context.decide_refresh(table), context.decide_refresh(table, fresh=True), context.decision_request.state.now
    )


def _list_tables(workflows: Sequence[WorkflowSpec]) -> Iterator[tuple[str, BoundFlow, Task]]:
    for binding in (b for w in workflows for b in w.bindings):
        for task in binding.tasks:
            yield from ((name, binding, task) for name in _list_results(task))


def _list_results(task: Task) -> list[str]:
    """List the public output channels of a task."""
    code = task.variant.code
    return [w.port for w in task.writes if not isinstance(code, Refresh) or w.argument == code.table]


def _choose_variants(
    catalog: CatalogReader, binding: BoundFlow, updates: Mapping[str, Updates]
) -> dict[str, RefreshChoice]:
    """Return the mode that a run would choose for each declared table of a flow; empty if the flow is not applied."""
    registered = {b.name: b.identity for b in catalog.list_bindings()}
    if registered.get(binding.name) != binding.compute_identity():
        return {}
    return choose_variants(catalog, binding, updates)[1]
