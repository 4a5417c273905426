"""How a table is kept fresh, in which ways it could be, and which of them a run would take now, and why."""

from __future__ import annotations

from tidemill.errors import TidemillError
from tidemill.planner.explanation import PlanExplanation, TableExplanation, WriterExplanation
from tidemill.ui import rows
from tidemill.ui.context import PageContext
from tidemill.ui.elements import HtmlText, add_box, add_link, add_section, format_flow_url, run_off_loop
from tidemill.ui.table import LiveTable


class ExplanationView:
    """Made anew only when the explanation is another one."""

    def __init__(self, desk: PageContext, table: str) -> None:
        self._desk = desk
        self._table = table
        self._shown: TableExplanation | str | None = None
        with add_section("How it is kept fresh") as self._section:
            self._place = add_box("stack")
        self._section.set_visibility(False)

    async def show_explanation(self) -> None:
        found: TableExplanation | str
        try:
            found = await run_off_loop(self._desk.mill.explain, self._table)
        except TidemillError as error:
            found = str(error)
        if found == self._shown:
            return
        self._shown = found
        self._section.set_visibility(True)
        self._place.clear()
        with self._place:
            if isinstance(found, str):
                HtmlText(found, "p", "muted")
            else:
                if found.plan is not None:
                    _show_plan(found.plan)
                for writer in found.writers:
                    _show_writer(writer, self._desk.format_location(writer.location))
                if found.compaction is not None:
                    HtmlText(f"Compaction is {found.compaction}.", "p", "muted")
                if found.together is not None:
                    HtmlText(_format_sentence(found.together), "p", "muted")


def _show_plan(plan: PlanExplanation) -> None:
    HtmlText("Its promises need this now:" if plan.now else "To reflect everything, this would run:", "p", "verdict")
    steps = LiveTable("Plan", ("task", "variant", "takes in", "seconds"))
    steps.show_rows([(s.task, s.variant, ", ".join(s.reads), f"{s.seconds:.2f}") for s in plan.steps])
    if plan.refused:
        refused = LiveTable("Not chosen", ("task", "variant", "seconds", "because"))
        refused.show_rows([(r.task, r.variant, format_seconds(r.seconds), r.reason) for r in plan.refused])


def format_seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _show_writer(writer: WriterExplanation, place: str) -> None:
    with add_box("line-of"):
        HtmlText(f"Task {writer.task} of flow ")
        add_link(writer.flow, format_flow_url(writer.flow))
        HtmlText(f", declared in {place}; refresh: {writer.refresh or 'programmed'}.")
    HtmlText(f"A run now: {writer.way or 'unknown'}. {_format_sentence(writer.why)}", "p", "verdict")
    LiveTable("Variants", rows.VARIANT).show_rows([rows.build_variant_row(v, writer) for v in writer.variants])
    if writer.widgets:
        HtmlText("\n".join(writer.widgets), "pre", "log")
    if writer.states:
        states = LiveTable("State channels", ("state channel", "updates", "keeps", "of"))
        states.show_rows([(s.channel, s.updates, ", ".join(s.columns), s.widget) for s in writer.states])


def _format_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
