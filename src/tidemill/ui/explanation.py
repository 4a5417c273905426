"""The explanation of a table's refresh: its variants, which of them a run would use now, and why."""

from __future__ import annotations

from tidemill.errors import TidemillError
from tidemill.planner.explanation import PlanExplanation, TableExplanation, WriterExplanation
from tidemill.ui import rows
from tidemill.ui.context import PageContext
from tidemill.ui.elements import HtmlText, add_box, add_link, add_section, format_flow_url, run_off_loop
from tidemill.ui.table import LiveTable


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
            explanation = str(error)
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
    steps = LiveTable("Plan", ("task", "variant", "reads", "seconds"))
    steps.show_rows([(s.task, s.variant, ", ".join(s.reads), f"{s.seconds:.2f}") for s in plan.steps])
    if plan.rejected:
        refused = LiveTable("Not chosen", ("task", "variant", "seconds", "reason"))
        refused.show_rows([(r.task, r.variant, format_seconds(r.seconds), r.reason) for r in plan.rejected])


def format_seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _show_writer(writer: WriterExplanation, location: str) -> None:
    with add_box("line-of"):
        HtmlText(f"Task {writer.task} of flow ")
        add_link(writer.flow, format_flow_url(writer.flow))
        HtmlText(f", declared in {location}; refresh: {writer.refresh or 'programmed'}.")
    HtmlText(f"A run now: {writer.mode or 'unknown'}. {_format_sentence(writer.reason)}", "p", "verdict")
    LiveTable("Variants", rows.VARIANT).show_rows([rows.build_variant_row(v, writer) for v in writer.variants])
    if writer.operators:
        HtmlText("\n".join(writer.operators), "pre", "log")
    if writer.states:
        states = LiveTable("State channels", ("state channel", "updates", "columns", "operator"))
        states.show_rows([(s.channel, s.updates, ", ".join(s.columns), s.operator) for s in writer.states])


def _format_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
