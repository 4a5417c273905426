"""`/freshness`: how stale tables were over time, each of them and all together."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from tidemill.runtime.freshness.staleness import Curve, History, Measure, curves, measured, total
from tidemill.runtime.freshness.visibility import history
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Text, box, channel_url, link, section
from tidemill.ui.formatting import NONE, span
from tidemill.ui.page_frame import frame
from tidemill.ui.run_lanes import window
from tidemill.ui.table import Cell, Row, Table

MEANING = {
    Measure.STALENESS: "how long ago the first version came that a table does not reflect yet; "
    "by event time, how long ago the moment was up to which nothing is missing",
    Measure.AGE: "how old the newest version is that a table reflects; by event time, as for staleness",
}
COLOURS = ("#2b8aa6", "#b07c1e", "#7a6fb5", "#4f9a6b", "#b65f74", "#6f8791", "#a0672f", "#3d6fb0")
GREY = "#7c8b93"
UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


async def freshness(desk: Desk, measure: Measure) -> None:
    with frame(desk, "/freshness", "Freshness"):
        Text("Freshness", "h1")
        _choices(measure)
        with section("Lately", MEANING[measure]):
            single = _chart("Each table")
            summed = _chart("All tables together, each by its priority")
        with section("Now"):
            table = Table("Now", ("table", ">staleness", ">age"), empty="no table yet")

        async def show() -> None:
            snapshot = await desk.feed.snapshot()
            found = await off_loop(history, desk.mill.catalog, snapshot.status, list(desk.feed.events))
            now = await off_loop(desk.mill.catalog.now)
            length = window(found.begin(), now)
            drawn = curves(found, measure, now - length, now)
            _show(single, drawn, now, length)
            _show(summed, (total(drawn, found.weights),), now, length)
            table.show([_row(found, name, now) for name in sorted(found.reaches)])

        await desk.keep(show)


def _choices(chosen: Measure) -> None:
    with box("choices", "nav") as nav:
        nav.props["aria-label"] = "Measures"
        for measure in Measure:
            made = link(str(measure), f"/freshness?measure={measure}")
            if measure is chosen:
                made.props["aria-current"] = "true"


def _row(found: History, table: str, now: float) -> Row:
    values = (measured(found, table, measure, now) for measure in (Measure.STALENESS, Measure.AGE))
    return (Cell(table, channel_url(table)), *(NONE if v is None else span(v) for v in values))


def _chart(label: str) -> ui.echart:
    chart = ui.echart({}, renderer="svg").classes("chart")
    chart.props["role"] = "img"
    chart.props["aria-label"] = label
    return chart


def _show(chart: ui.echart, drawn: tuple[Curve, ...], now: float, length: float) -> None:
    chart.options.clear()
    chart.options.update(options(drawn, now, length))
    chart.update()


def options(drawn: tuple[Curve, ...], now: float, length: float) -> dict[str, Any]:
    """A chart of curves, in minutes before now, so that nobody needs to know a time zone.

    Its texts are drawn, not parsed: names of tables never become HTML.
    """
    worst = max((value for curve in drawn for _, value in curve.points), default=0.0)
    unit, name = next(((u, n) for u, n in UNITS if worst >= 2 * u), UNITS[-1])
    minutes = length / 60
    return {
        "animation": False,
        "color": list(COLOURS),
        "textStyle": {"fontFamily": "inherit", "color": GREY},
        "legend": {"type": "scroll", "bottom": 0, "icon": "circle", "itemHeight": 12, "textStyle": {"color": GREY}},
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "grid": {"left": 8, "right": 16, "top": 34, "bottom": 56, "containLabel": True},
        "xAxis": {
            "type": "value",
            "inverse": True,
            "min": 0,
            "max": minutes,
            "interval": minutes / 4,
            "name": "minutes ago",
            "nameLocation": "middle",
            "nameGap": 24,
            "axisLine": {"lineStyle": {"color": GREY}},
            "splitLine": {"show": False},
        },
        "yAxis": {
            "type": "value",
            "position": "left",
            "name": name,
            "nameTextStyle": {"align": "left"},
            "min": 0,
            "splitNumber": 3,
            "axisLine": {"show": False, "onZero": False},
            "axisTick": {"show": False},
            "splitLine": {"lineStyle": {"color": GREY, "opacity": 0.25}},
        },
        "series": [_series(curve, now, unit) for curve in drawn],
    }


def _series(curve: Curve, now: float, unit: float) -> dict[str, Any]:
    points = [[round((now - moment) / 60, 3), round(value / unit, 2)] for moment, value in curve.points]
    return {"type": "line", "name": curve.table, "showSymbol": False, "lineStyle": {"width": 1.5}, "data": points}
