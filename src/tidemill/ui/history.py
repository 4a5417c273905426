"""`/history`: what was submitted and refreshed over time, and what reuse saved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import urlencode

from tidemill.model.usage import UsagePeriod
from tidemill.retention.usage_history import TimeResolution, UsageFigures, UsageSplit, fill_gaps
from tidemill.runtime.oneshot.service import OneShotService
from tidemill.ui.bars import BarChart, BarSeries, choose_count_unit, choose_size_unit, choose_time_unit
from tidemill.ui.context import PageContext
from tidemill.ui.elements import HtmlText, add_box, add_link, add_section, run_off_loop
from tidemill.ui.formatting import format_count, format_size, format_span, format_utc
from tidemill.ui.page_frame import open_frame
from tidemill.ui.table import LiveTable, Row

PERIODS = 48
"""So many of the newest are drawn and listed."""

COUNTS = (">submissions", ">actions", ">computed", ">hits", ">refreshes", ">failed", ">took", ">saved", ">made")


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """What of the past is shown, as the address says it."""

    by: TimeResolution = TimeResolution.HOUR
    per: UsageSplit | None = None
    user: str | None = None
    workflow: str | None = None
    task: str | None = None

    def compute_period(self, now: float) -> UsagePeriod:
        begin = self.by.find_begin(now)
        for _ in range(PERIODS - 1):
            begin = self.by.find_begin(begin - 1)
        return UsagePeriod(begin, now + 1, self.user, self.workflow, self.task)

    @property
    def url(self) -> str:
        """
        >>> HistoryQuery(per=UsageSplit.TASK, user="ada").url
        '/history?by=hour&per=task&user=ada'
        """
        said = {"by": self.by, "per": self.per, "user": self.user, "workflow": self.workflow, "task": self.task}
        return f"/history?{urlencode({name: str(value) for name, value in said.items() if value is not None})}"

    @property
    def filter_text(self) -> str:
        """Of whom, in words; empty: of all."""
        said = (("user", self.user), ("workflow", self.workflow), ("task", self.task))
        return ", ".join(f"{name} {value}" for name, value in said if value is not None)


async def show_history(desk: PageContext, asked: HistoryQuery) -> None:
    with open_frame(desk, "/history", "History"):
        HtmlText("History", "h1")
        _add_choices(asked)
        with add_section("Lately", asked.filter_text or "everything"):
            charts = _add_charts()
        with add_section(f"By {asked.by}", "the newest first, in UTC"):
            named = () if asked.per is None else (str(asked.per),)
            table = LiveTable("History", ("from", *named, *COUNTS), empty="nothing was done")

        async def refresh_charts() -> None:
            found, parts = await run_off_loop(_read_figures, desk.mill.workshop, asked)
            drawn = fill_gaps(found, asked.by, PERIODS)
            for chart in charts:
                chart.show_figures(drawn, asked.by)
            table.show_rows([_build_row(f) for f in reversed(parts)])

        await desk.keep_refreshing(refresh_charts)


def _read_figures(shop: OneShotService, asked: HistoryQuery) -> tuple[list[UsageFigures], list[UsageFigures]]:
    """The figures of all together, and of each apart."""
    period = asked.compute_period(shop.executor.catalog.read_time())
    found = shop.compute_usage(period, asked.by)
    return found, found if asked.per is None else shop.compute_usage(period, asked.by, asked.per)


def _add_charts() -> tuple[BarChart, ...]:
    actions = (
        BarSeries("computed", "blue", lambda f: f.computed),
        BarSeries("hits", "green", lambda f: f.hits),
        BarSeries("failed", "red", lambda f: f.failed),
    )
    return (
        BarChart("Actions", actions, choose_count_unit),
        BarChart("Refreshes", (BarSeries("refreshes", "blue", lambda f: f.refreshes),), choose_count_unit),
        BarChart(
            "Time",
            (BarSeries("took", "blue", lambda f: f.seconds), BarSeries("saved", "green", lambda f: f.saved)),
            choose_time_unit,
        ),
        BarChart("Bytes made", (BarSeries("made", "amber", lambda f: f.bytes),), choose_size_unit),
    )


def _add_choices(asked: HistoryQuery) -> None:
    with add_box("choices", "nav") as nav:
        nav.props["aria-label"] = "Resolution"
        for by in TimeResolution:
            _add_choice(str(by), replace(asked, by=by), asked)
    with add_box("choices", "nav") as nav:
        nav.props["aria-label"] = "Apart"
        for per in (None, *UsageSplit):
            _add_choice("all" if per is None else f"per {per}", replace(asked, per=per), asked)
        if asked.filter_text:
            _add_choice("of everybody", HistoryQuery(asked.by, asked.per), asked)


def _add_choice(name: str, choice: HistoryQuery, asked: HistoryQuery) -> None:
    made = add_link(name, choice.url)
    if choice == asked:
        made.props["aria-current"] = "true"


def _build_row(value: UsageFigures) -> Row:
    named = () if value.of is None else (value.of,)
    counts = (format_count(value.submissions), format_count(value.actions), format_count(value.computed))
    runs = (f"{value.hits} ({value.hit_rate:.0%})", format_count(value.refreshes), format_count(value.failed))
    return (
        format_utc(value.begin),
        *named,
        *counts,
        *runs,
        format_span(value.seconds),
        format_span(value.saved),
        format_size(value.bytes),
    )
