"""`/freshness`: how stale tables were over time, individually and together."""

from typing import Any

from tidemill.display.table import link_channel
from tidemill.model.units import format_span
from tidemill.runtime.freshness import staleness
from tidemill.runtime.freshness.staleness import StalenessCurve, StalenessHistory, StalenessMeasure
from tidemill.runtime.freshness.visibility import read_history
from tidemill.ui.charts import add_chart, build_options, update_chart
from tidemill.ui.context import PageContext, open_frame
from tidemill.ui.elements import HtmlText, add_choices, add_section, run_off_loop
from tidemill.ui.run_lanes import choose_window
from tidemill.ui.snapshot import ProjectSnapshot
from tidemill.ui.table import LiveTable, Row

DESCRIPTIONS = {
    StalenessMeasure.STALENESS: "the age of the oldest version that a table does not reflect yet; "
    "by event time, the age of its watermark",
    StalenessMeasure.AGE: "the age of the newest version that a table reflects; by event time, as for staleness",
}
COLOURS = ("#2b8aa6", "#b07c1e", "#7a6fb5", "#4f9a6b", "#b65f74", "#6f8791", "#a0672f", "#3d6fb0")
UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


async def show_freshness(context: PageContext, measure: StalenessMeasure = StalenessMeasure.STALENESS) -> None:
    with open_frame(context, "/freshness", "Freshness"):
        HtmlText("Freshness", "h1")
        choices = ((str(m), f"/freshness?measure={m}", m is measure) for m in StalenessMeasure)
        add_choices("Measures", choices)
        with add_section("Recent", DESCRIPTIONS[measure]):
            single = add_chart("Each table")
            summed = add_chart("All tables together, each by its priority")
        with add_section("Now"):
            table = LiveTable("Now", ("table", ">staleness", ">age"), empty="no table yet")

        async def refresh_charts(snapshot: ProjectSnapshot, now: float) -> None:
            history = await run_off_loop(read_history, context.mill.catalog, snapshot.status, list(context.feed.events))
            length = choose_window(history.find_start(), now)
            curves = staleness.compute_curves(history, measure, now - length, now)
            update_chart(single, build_chart_options(curves, now, length))
            update_chart(summed, build_chart_options((staleness.sum_curves(curves, history.weights),), now, length))
            table.show_rows([_build_row(history, name, now) for name in sorted(history.provenance)])

        await context.keep_refreshing(refresh_charts)


def _build_row(history: StalenessHistory, table: str, now: float) -> Row:
    values = (staleness.measure_staleness(history, table, measure, now) for measure in StalenessMeasure)
    return (link_channel(table), *(None if v is None else format_span(v) for v in values))


def build_chart_options(curves: tuple[StalenessCurve, ...], now: float, length: float) -> dict[str, Any]:
    """A chart of curves, in minutes before now, so that it does not depend on a time zone."""
    worst = max((value for curve in curves for _, value in curve.points), default=0.0)
    unit, name = next(((u, n) for u, n in UNITS if worst >= 2 * u), UNITS[-1])
    minutes = length / 60
    x_axis = {
        "type": "value",
        "inverse": True,
        "min": 0,
        "max": minutes,
        "interval": minutes / 4,
        "name": "minutes ago",
        "nameLocation": "middle",
        "nameGap": 24,
        "splitLine": {"show": False},
    }
    series = [_build_series(curve, now, unit) for curve in curves]
    return {"color": list(COLOURS)} | build_options(name, x_axis, series, bottom=56)


def _build_series(curve: StalenessCurve, now: float, unit: float) -> dict[str, Any]:
    points = [[round((now - timestamp) / 60, 3), round(value / unit, 2)] for timestamp, value in curve.points]
    return {"type": "line", "name": curve.table, "showSymbol": False, "lineStyle": {"width": 1.5}, "data": points}
