"""`explain`: how a table is refreshed, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from tidemill.cli.formatting import NONE, format_count, format_duration
from tidemill.cli.output import Answer, build_fields, build_table
from tidemill.planner.explanation import PlanExplanation, TableExplanation, VariantExplanation, WriterExplanation
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
            yield _render_states(writer)
        yield _render_variants(writer)
        if writer.program:
            yield _render_program(writer)


def _render_plan(plan: PlanExplanation) -> Iterator[RenderableType]:
    title = "plan, now" if plan.is_due else f"plan, to reflect all data ({_format_due(plan)})"
    rows = ([s.task, s.variant, s.reads, f"{s.seconds:.2f}"] for s in plan.steps)
    empty = (
        "nothing to do"
        if plan.seconds is not None or not plan.rejected
        else "no plan would meet every freshness target"
    )
    yield build_table(title, ("task", "variant", "reads", ">seconds"), rows, empty=empty)
    if plan.rejected:
        rejected = (
            [r.task, r.variant, NONE if r.seconds is None else f"{r.seconds:.2f}", r.reason] for r in plan.rejected
        )
        yield build_table("not chosen", ("task", "variant", ">seconds", "because"), rejected)


def _format_due(plan: PlanExplanation) -> str:
    return "nothing is due" if plan.due is None else f"a freshness target is due in {format_duration(0.0, plan.due)}"


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


def _render_states(writer: WriterExplanation) -> RenderableType:
    rows = ([s.channel, _format_updates(s.updates, s.key), s.columns, s.operator] for s in writer.states)
    return build_table("state channels", ("channel", "updates", "columns", "operator"), rows)


def _format_updates(updates: str, key: tuple[str, ...]) -> str:
    return f"{updates} ({', '.join(key)})" if key else updates


def _render_variants(writer: WriterExplanation) -> RenderableType:
    headings = ("variant", "reads", "writes", ">rows", ">seconds", "now")
    return build_table("variants", headings, (_build_variant_row(v, writer) for v in writer.variants))


def _build_variant_row(value: VariantExplanation, writer: WriterExplanation) -> list[object]:
    reads = [f"{channel} ({', '.join(modes)})" for channel, modes in value.reads]
    writes = [f"{channel} ({', '.join(filter(None, (kind, updates)))})" for channel, kind, updates in value.writes]
    seconds = NONE if value.seconds is None else f"{value.seconds:.1f}"
    return [value.name, reads, writes, format_count(value.rows), seconds, _format_verdict(value, writer)]


def _format_verdict(value: VariantExplanation, writer: WriterExplanation) -> str:
    if value.unsupported_reason:
        return f"impossible: {value.unsupported_reason}"
    if value.name == writer.mode:
        return "would run"
    if writer.mode is None:
        return "known after apply"
    return f"possible, with run {writer.flow} --variant {value.name}"


def _render_program(writer: WriterExplanation) -> RenderableType:
    rows = ([line.name, line.inputs, line.operators[0]] for line in writer.program)
    return build_table("incremental program", ("step", "reads", "and computes"), rows)
