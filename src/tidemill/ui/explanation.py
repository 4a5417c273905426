"""The explanation of a table's refresh: its variants, which of them a run would use now, and why."""

from tidemill.display import columns
from tidemill.display.table import format_flow_url
from tidemill.errors import TidemillError
from tidemill.planner.explanation import PlanExplanation, TableExplanation, WriterExplanation
from tidemill.ui.context import PageContext
from tidemill.ui.elements import HtmlText, add_box, add_link, add_section, run_off_loop
from tidemill.ui.table import ValueTable


class ExplanationView:
    """Rebuilt only when the explanation changes."""

    def __init__(self, context: PageContext, table: str) -> None:
        self._context = context
        self._table = table
        self._explanation: TableExplanation | str | None = None
        with add_section("How it is refreshed") as self._section:
            self._container = add_box("stack")
        self._section.set_visibility(False)

    async def show_explanation(self) -> None:
        explanation: TableExplanation | str
        try:
            explanation = await run_off_loop(self._context.mill.explain, self._table)
        except TidemillError as error:
            explanation = self._context.mill.redactor.summarize(error)
        if explanation == self._explanation:
            return
        self._explanation = explanation
        self._section.set_visibility(True)
        self._container.clear()
        with self._container:
            if isinstance(explanation, str):
                HtmlText(explanation, "p", "muted")
            else:
                if explanation.plan is not None:
                    _show_plan(explanation.plan)
                for writer in explanation.writers:
                    _show_writer(writer, self._context.format_location(writer.location))
                if explanation.compaction is not None:
                    HtmlText(f"Compaction is {explanation.compaction}.", "p", "muted")
                if explanation.group_advice is not None:
                    HtmlText(_format_sentence(explanation.group_advice), "p", "muted")


def _show_plan(plan: PlanExplanation) -> None:
    HtmlText(
        "Its freshness targets need this now:" if plan.is_due else "To reflect everything, this would run:",
        "p",
        "verdict",
    )
    ValueTable("Plan", columns.PLANNED_STEP).show_values(plan.steps)
    if plan.rejected:
        ValueTable("Not chosen", columns.REJECTED_STEP).show_values(plan.rejected)


def _show_writer(writer: WriterExplanation, location: str) -> None:
    with add_box("line-of"):
        HtmlText(f"Task {writer.task} of flow ")
        add_link(writer.flow, format_flow_url(writer.flow))
        HtmlText(f", declared in {location}; refresh: {writer.refresh or 'programmed'}.")
    HtmlText(f"A run now: {writer.mode or 'unknown'}. {_format_sentence(writer.reason)}", "p", "verdict")
    ValueTable("Variants", columns.build_variant_columns(writer)).show_values(writer.variants)
    if writer.operators:
        HtmlText("\n".join(writer.operators), "pre", "log")
    if writer.states:
        ValueTable("State channels", columns.STATE).show_values(writer.states)
    if writer.steps:
        ValueTable("Steps of the last run", columns.STEP).show_values(writer.steps)


def _format_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
