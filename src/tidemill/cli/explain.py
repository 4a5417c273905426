"""`explain`: how a table is refreshed, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from tidemill.cli.output import Answer, build_fields, build_table, render_list
from tidemill.display import columns
from tidemill.model.units import format_span
from tidemill.planner.explanation import PlanExplanation, TableExplanation, WriterExplanation
from tidemill.wire.explain_schemas import ExplanationDocument
from tidemill.wire.oneshot_schemas import ActionDocument

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def explain(
    mill: Tidemill,
    name: Annotated[str, typer.Argument(metavar="TABLE", help="A table that a task writes; or an action.")],
    submission: Annotated[
        int | None, typer.Option("--submission", help="Explain an action of this submission, by its id or name.")
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
            yield _render_program(writer)
        if writer.steps:
            yield render_list("steps of the last run", columns.STEP, writer.steps)


def _render_plan(plan: PlanExplanation) -> Iterator[RenderableType]:
    title = "plan, now" if plan.is_due else f"plan, to reflect all data ({_format_due(plan)})"
    empty = (
        "nothing to do"
        if plan.seconds is not None or not plan.rejected
        else "no plan would meet every freshness target"
    )
    yield render_list(title, columns.PLANNED_STEP, plan.steps, empty=empty)
    if plan.rejected:
        yield render_list("not chosen", columns.REJECTED_STEP, plan.rejected)


def _format_due(plan: PlanExplanation) -> str:
    return "nothing is due" if plan.due is None else f"a freshness target is due in {format_span(plan.due)}"


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


def _render_program(writer: WriterExplanation) -> RenderableType:
    rows = ([line.name, line.inputs, line.operators[0]] for line in writer.program)
    return build_table("incremental program", ("step", "reads", "and computes"), rows)
