"""Explaining a table: its tasks as the workflow files declare them, against what the catalog knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidemill.errors import NotFound
from tidemill.model.change import Updates
from tidemill.model.flow import Binding
from tidemill.model.task import Refresh, Task
from tidemill.model.workflow import Workflow
from tidemill.planner.explanation import Explanation, Plan, plan_of, written
from tidemill.planner.refresh_mode import Choice
from tidemill.ports.catalog import CatalogReader
from tidemill.runtime.freshness.planning import Outlook
from tidemill.runtime.freshness.refresh_groups import together_with
from tidemill.runtime.freshness.refresh_mode import chosen
from tidemill.runtime.maintenance.compaction import said


def explain(
    catalog: CatalogReader, workflows: Sequence[Workflow], updates: Mapping[str, Updates], table: str
) -> Explanation:
    """How a table is written, in which ways that could be done, and which of them a run would take now."""
    found = [(binding, task) for name, binding, task in _tables(workflows) if name == table]
    if not found:
        known = ", ".join(sorted({name for name, _, _ in _tables(workflows)}))
        raise NotFound(f"no table {table!r} is declared; the tables are {known or 'none'}")
    choices = {b.name: _choices(catalog, b, updates) for b, _ in found}
    writers = tuple(written(b.name, t, choices[b.name].get(t.name)) for b, t in found)
    plan = _plan(catalog, workflows, updates, table)
    registered = any(c.channel.name == table for c in catalog.channels())
    compaction = said(catalog, updates, table) if registered else None
    return Explanation(table, writers, plan, compaction, together_with(catalog, workflows, found[0][0]))


def _plan(
    catalog: CatalogReader, workflows: Sequence[Workflow], updates: Mapping[str, Updates], table: str
) -> Plan | None:
    """What would be done for a table of which something is promised; None where nothing can be said."""
    workflow = next(w for w in workflows if w.channel(table) is not None)
    registered = {b.name: b.identity for b in catalog.bindings()}
    if any(registered.get(b.name) != b.identity() for b in workflow.bindings):
        return None
    outlook = Outlook(catalog, updates, workflow, catalog.now())
    if not outlook.promise(table):
        return None
    return plan_of(outlook.decide(table), outlook.decide(table, fresh=True), outlook.question.standing.now)


def _tables(workflows: Sequence[Workflow]) -> Iterator[tuple[str, Binding, Task]]:
    for binding in (b for w in workflows for b in w.bindings):
        for task in binding.tasks:
            yield from ((name, binding, task) for name in _results(task))


def _results(task: Task) -> list[str]:
    """The channels that a task writes for others to read."""
    code = task.variant.code
    return [w.port for w in task.writes if not isinstance(code, Refresh) or w.argument == code.table]


def _choices(catalog: CatalogReader, binding: Binding, updates: Mapping[str, Updates]) -> dict[str, Choice]:
    """What a run of the flow would choose for each of its declared tables; nothing unless it could run."""
    registered = {b.name: b.identity for b in catalog.bindings()}
    if registered.get(binding.name) != binding.identity():
        return {}
    return chosen(catalog, binding, updates)[1]
