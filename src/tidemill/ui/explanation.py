"""How a table is kept fresh, in which ways it could be, and which of them a run would take now, and why."""

from __future__ import annotations

from tidemill.errors import TidemillError
from tidemill.planner.explanation import Explanation, Plan, Written
from tidemill.ui import rows
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Text, box, flow_url, link, section
from tidemill.ui.table import Table


class ExplanationView:
    """Made anew only when the explanation is another one."""

    def __init__(self, desk: Desk, table: str) -> None:
        self._desk = desk
        self._table = table
        self._shown: Explanation | str | None = None
        with section("How it is kept fresh") as self._section:
            self._place = box("stack")
        self._section.set_visibility(False)

    async def show(self) -> None:
        found: Explanation | str
        try:
            found = await off_loop(self._desk.mill.explain, self._table)
        except TidemillError as error:
            found = str(error)
        if found == self._shown:
            return
        self._shown = found
        self._section.set_visibility(True)
        self._place.clear()
        with self._place:
            if isinstance(found, str):
                Text(found, "p", "muted")
            else:
                if found.plan is not None:
                    _plan(found.plan)
                for writer in found.writers:
                    _writer(writer, self._desk.place(writer.location))
                if found.compaction is not None:
                    Text(f"Compaction is {found.compaction}.", "p", "muted")
                if found.together is not None:
                    Text(_sentence(found.together), "p", "muted")


def _plan(plan: Plan) -> None:
    Text("Its promises need this now:" if plan.now else "To reflect everything, this would run:", "p", "verdict")
    steps = Table("Plan", ("task", "variant", "takes in", "seconds"))
    steps.show([(s.task, s.variant, ", ".join(s.reads), f"{s.seconds:.2f}") for s in plan.steps])
    if plan.refused:
        refused = Table("Not chosen", ("task", "variant", "seconds", "because"))
        refused.show([(r.task, r.variant, seconds(r.seconds), r.reason) for r in plan.refused])


def seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _writer(writer: Written, place: str) -> None:
    with box("line-of"):
        Text(f"Task {writer.task} of flow ")
        link(writer.flow, flow_url(writer.flow))
        Text(f", declared in {place}; refresh: {writer.refresh or 'programmed'}.")
    Text(f"A run now: {writer.way or 'unknown'}. {_sentence(writer.why)}", "p", "verdict")
    Table("Variants", rows.VARIANT).show([rows.of_variant(v, writer) for v in writer.variants])
    if writer.widgets:
        Text("\n".join(writer.widgets), "pre", "log")
    if writer.states:
        states = Table("State channels", ("state channel", "updates", "keeps", "of"))
        states.show([(s.channel, s.updates, ", ".join(s.columns), s.widget) for s in writer.states])


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
