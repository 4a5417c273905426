"""`status`, `staleness`, `flows` and `explain`: the state of the project, and how its tables are refreshed."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import RenderableType

from tidemill.app import inspection, serialization
from tidemill.cli import tables
from tidemill.cli.command import Every, Tidemill
from tidemill.cli.output import Answer, build_fields, build_table, render_list
from tidemill.display import columns
from tidemill.model.units import format_span
from tidemill.planner.explanation import PlanExplanation, TableExplanation, WriterExplanation
from tidemill.runtime.freshness.staleness import StalenessMeasure
from tidemill.runtime.inspect.status import read_status
from tidemill.wire.explain_schemas import ExplanationDocument
from tidemill.wire.oneshot_schemas import ActionDocument
from tidemill.wire.schemas import FlowListDocument, StatusDocument


def status(mill: Tidemill, every: Every = False) -> Answer:
    """Show the freshness of every channel, the lag of consumers, and active runs."""
    visible, now = (
        inspection.read_service_status(mill.catalog, mill.quotas.quotas, every=every),
        mill.catalog.read_time(),
    )
    return Answer(lambda: StatusDocument.model_validate(visible), lambda: _render_status(visible, now))


def _render_status(status: inspection.ServiceStatus, now: float) -> Iterator[RenderableType]:
    if status.health.reason:
        yield f"degraded: {status.health.reason}"
    yield tables.render_channels(status.channels, now)
    if any(c.target_status for c in status.channels):
        yield tables.render_targets(status.channels)
    yield tables.render_flows(status.flows, now)
    yield render_list("active runs", columns.RUN, status.active, now)
    if status.quotas:
        yield render_list("quotas", columns.QUOTA, status.quotas)


def staleness(
    mill: Tidemill,
    measure: Annotated[
        StalenessMeasure, typer.Option(help="age: the age of the newest version that a table reflects.")
    ] = (StalenessMeasure.STALENESS),
    minutes: Annotated[float, typer.Option(min=0.1, help="Minutes of history in the JSON document.")] = 60.0,
) -> Answer:
    """Show how stale every table is, its recent worst staleness, and the age of the data that it reflects."""
    history, now = mill.history(), mill.catalog.read_time()
    since = now - 60 * minutes
    document = serialization.serialize_staleness(history, measure, since, now)
    return Answer(
        document, tables.render_staleness(history, since, now), tables.format_weighted_staleness(history, since, now)
    )


def flows(mill: Tidemill) -> Answer:
    """List the bound flows with their tasks, inputs and outputs, and their last runs."""
    flow_list, now = read_status(mill.catalog).flows, mill.catalog.read_time()
    tasks = [tables.render_tasks(flow_list)] if flow_list else []
    return Answer(FlowListDocument.build(flows=flow_list), tables.render_flows(flow_list, now), *tasks)


def explain(
    mill: Tidemill,
    name: Annotated[str, typer.Argument(metavar="TABLE", help="A table that a task writes; or an action.")],
    submission: Annotated[
        int | None, typer.Option(help="Explain an action of this submission, by its id or name.")
    ] = None,
) -> Answer:
    """Show how a table is refreshed: its operators, its state, its variants, and which would run now and why.

    For an action of a submission: why it was or was not reused.
    """
    if submission is not None:
        action = mill.oneshot_service.find_action(submission, name)
        return Answer(ActionDocument.model_validate(action), action.reason)
    explanation = mill.explain(name)
    return Answer(ExplanationDocument.model_validate(explanation), *_render_explanation(explanation))


def _render_explanation(explanation: TableExplanation) -> Iterator[RenderableType]:
    if explanation.plan is not None:
        yield from _render_plan(explanation.plan)
    for writer in explanation.writers:
        yield _render_head(explanation, writer)
        if writer.operators:
            yield "\n".join(("operators", *(f"  {line}" for line in writer.operators)))
            yield render_list("state channels", columns.STATE, writer.states)
        yield render_list("variants", columns.build_variant_columns(writer), writer.variants)
        if writer.program:
            rows = ([line.name, line.inputs, line.operators[0]] for line in writer.program)
            yield build_table("incremental program", ("step", "reads", "and computes"), rows)
        if writer.steps:
            yield render_list("steps of the last run", columns.STEP, writer.steps)


def _render_plan(plan: PlanExplanation) -> Iterator[RenderableType]:
    due = "nothing is due" if plan.due is None else f"a freshness target is due in {format_span(plan.due)}"
    title = "plan, now" if plan.is_due else f"plan, to reflect all data ({due})"
    is_feasible = plan.seconds is not None or not plan.rejected
    empty = "nothing to do" if is_feasible else "no plan would meet every freshness target"
    yield render_list(title, columns.PLANNED_STEP, plan.steps, empty=empty)
    if plan.rejected:
        yield render_list("not chosen", columns.REJECTED_STEP, plan.rejected)


def _render_head(explanation: TableExplanation, writer: WriterExplanation) -> RenderableType:
    return build_fields(
        [
            ("table", explanation.table),
            ("written by", f"task {writer.task} of flow {writer.flow}"),
            ("declared in", writer.location),
            ("refresh", writer.refresh or "programmed"),
            ("runs now", f"{writer.mode or 'unknown'}: {writer.reason}"),
            ("compaction", explanation.compaction or "nothing was written yet"),
            *([] if explanation.group_advice is None else [("group", explanation.group_advice)]),
        ]
    )
