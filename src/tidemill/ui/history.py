"""`/history`: what was submitted and refreshed over time, and what reuse saved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import urlencode

from tidemill.model.usage import Period
from tidemill.retention.usage_history import Figures, Resolution, Split, without_gaps
from tidemill.runtime.oneshot.service import Workshop
from tidemill.ui.bars import Bars, Part, counted, sized, timed
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Text, box, link, section
from tidemill.ui.formatting import clock, count, size, span
from tidemill.ui.page_frame import frame
from tidemill.ui.table import Row, Table

PERIODS = 48
"""So many of the newest are drawn and listed."""

COUNTS = (">submissions", ">actions", ">computed", ">hits", ">refreshes", ">failed", ">took", ">saved", ">made")


@dataclass(frozen=True, slots=True)
class Asked:
    """What of the past is shown, as the address says it."""

    by: Resolution = Resolution.HOUR
    per: Split | None = None
    user: str | None = None
    workflow: str | None = None
    task: str | None = None

    def period(self, now: float) -> Period:
        begin = self.by.begin(now)
        for _ in range(PERIODS - 1):
            begin = self.by.begin(begin - 1)
        return Period(begin, now + 1, self.user, self.workflow, self.task)

    @property
    def url(self) -> str:
        """
        >>> Asked(per=Split.TASK, user="ada").url
        '/history?by=hour&per=task&user=ada'
        """
        said = {"by": self.by, "per": self.per, "user": self.user, "workflow": self.workflow, "task": self.task}
        return f"/history?{urlencode({name: str(value) for name, value in said.items() if value is not None})}"

    @property
    def only(self) -> str:
        """Of whom, in words; empty: of all."""
        said = (("user", self.user), ("workflow", self.workflow), ("task", self.task))
        return ", ".join(f"{name} {value}" for name, value in said if value is not None)


async def history(desk: Desk, asked: Asked) -> None:
    with frame(desk, "/history", "History"):
        Text("History", "h1")
        _choices(asked)
        with section("Lately", asked.only or "everything"):
            charts = _charts()
        with section(f"By {asked.by}", "the newest first, in UTC"):
            named = () if asked.per is None else (str(asked.per),)
            table = Table("History", ("from", *named, *COUNTS), empty="nothing was done")

        async def show() -> None:
            found, parts = await off_loop(_found, desk.mill.workshop, asked)
            drawn = without_gaps(found, asked.by, PERIODS)
            for chart in charts:
                chart.show(drawn, asked.by)
            table.show([_row(f) for f in reversed(parts)])

        await desk.keep(show)


def _found(shop: Workshop, asked: Asked) -> tuple[list[Figures], list[Figures]]:
    """The figures of all together, and of each apart."""
    period = asked.period(shop.executor.catalog.now())
    found = shop.past(period, asked.by)
    return found, found if asked.per is None else shop.past(period, asked.by, asked.per)


def _charts() -> tuple[Bars, ...]:
    actions = (
        Part("computed", "blue", lambda f: f.computed),
        Part("hits", "green", lambda f: f.hits),
        Part("failed", "red", lambda f: f.failed),
    )
    return (
        Bars("Actions", actions, counted),
        Bars("Refreshes", (Part("refreshes", "blue", lambda f: f.refreshes),), counted),
        Bars("Time", (Part("took", "blue", lambda f: f.seconds), Part("saved", "green", lambda f: f.saved)), timed),
        Bars("Bytes made", (Part("made", "amber", lambda f: f.bytes),), sized),
    )


def _choices(asked: Asked) -> None:
    with box("choices", "nav") as nav:
        nav.props["aria-label"] = "Resolution"
        for by in Resolution:
            _choice(str(by), replace(asked, by=by), asked)
    with box("choices", "nav") as nav:
        nav.props["aria-label"] = "Apart"
        for per in (None, *Split):
            _choice("all" if per is None else f"per {per}", replace(asked, per=per), asked)
        if asked.only:
            _choice("of everybody", Asked(asked.by, asked.per), asked)


def _choice(name: str, choice: Asked, asked: Asked) -> None:
    made = link(name, choice.url)
    if choice == asked:
        made.props["aria-current"] = "true"


def _row(value: Figures) -> Row:
    named = () if value.of is None else (value.of,)
    counts = (count(value.submissions), count(value.actions), count(value.computed))
    runs = (f"{value.hits} ({value.hit_rate:.0%})", count(value.refreshes), count(value.failed))
    return (clock(value.begin), *named, *counts, *runs, span(value.seconds), span(value.saved), size(value.bytes))
