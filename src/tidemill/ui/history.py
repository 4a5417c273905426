"""`/history`: submissions and refreshes over time, and the savings by reuse."""

from dataclasses import dataclass, replace
from urllib.parse import urlencode

from tidemill.display.columns import build_usage_columns
from tidemill.model.usage import UsagePeriod
from tidemill.retention.usage_history import TimeResolution, UsageSplit, fill_gaps
from tidemill.ui.charts import BarChart, BarSeries, choose_count_unit, choose_size_unit, choose_time_unit
from tidemill.ui.context import PageContext, open_frame
from tidemill.ui.elements import HtmlText, add_choices, add_section, run_off_loop
from tidemill.ui.snapshot import ProjectSnapshot
from tidemill.ui.table import ValueTable

PERIODS = 48
"""The number of newest periods that are drawn and listed."""


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """The selected part of the history, as the URL encodes it."""

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
        parameters = {"by": self.by, "per": self.per, "user": self.user, "workflow": self.workflow, "task": self.task}
        return f"/history?{urlencode({name: str(value) for name, value in parameters.items() if value is not None})}"

    @property
    def filter_text(self) -> str:
        """The filters in words; empty: none."""
        filters = (("user", self.user), ("workflow", self.workflow), ("task", self.task))
        return ", ".join(f"{name} {value}" for name, value in filters if value is not None)


async def show_history(
    context: PageContext,
    by: TimeResolution = TimeResolution.HOUR,
    per: UsageSplit | None = None,
    user: str | None = None,
    workflow: str | None = None,
    task: str | None = None,
) -> None:
    query = HistoryQuery(by, per, user, workflow, task)
    with open_frame(context, "/history", "History"):
        HtmlText("History", "h1")
        _add_query_choices(query)
        with add_section("Recent", query.filter_text or "everything"):
            charts = _add_charts()
        with add_section(f"By {query.by}", "the newest first, in UTC"):
            table = ValueTable("History", build_usage_columns(query.per), empty="nothing")

        async def refresh_charts(_snapshot: ProjectSnapshot, now: float) -> None:
            service = context.mill.oneshot_service
            period = query.compute_period(now)
            figures = await run_off_loop(service.compute_usage, period, query.by)
            periods = fill_gaps(figures, query.by, PERIODS)
            for chart in charts:
                chart.show_figures(periods, query.by)
            if query.per is not None:
                figures = await run_off_loop(service.compute_usage, period, query.by, query.per)
            table.show_values(reversed(figures))

        await context.keep_refreshing(refresh_charts)


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
            (BarSeries("took", "blue", lambda f: f.seconds), BarSeries("saved", "green", lambda f: f.saved_seconds)),
            choose_time_unit,
        ),
        BarChart("Bytes written", (BarSeries("written", "amber", lambda f: f.bytes),), choose_size_unit),
    )


def _add_query_choices(query: HistoryQuery) -> None:
    resolutions = ((str(by), replace(query, by=by)) for by in TimeResolution)
    splits = [("all" if per is None else f"per {per}", replace(query, per=per)) for per in (None, *UsageSplit)]
    if query.filter_text:
        splits.append(("without filter", HistoryQuery(query.by, query.per)))
    add_choices("Resolution", ((name, choice.url, choice == query) for name, choice in resolutions))
    add_choices("Split", ((name, choice.url, choice == query) for name, choice in splits))
