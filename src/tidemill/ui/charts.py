"""Charts: what all have in common, and stacked bars of figures by period. Texts are drawn: names never become HTML."""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from tidemill.model.usage import UsageFigures
from tidemill.retention.usage_history import TimeResolution

GREY = "#7c8b93"


def add_chart(label: str) -> ui.echart:
    chart = ui.echart({}, renderer="svg").classes("chart")
    chart.props["role"] = "img"
    chart.props["aria-label"] = label
    return chart


def update_chart(chart: ui.echart, options: dict[str, Any]) -> None:
    chart.options.clear()
    chart.options.update(options)
    chart.update()


def build_options(unit: str, x_axis: dict[str, Any], series: list[dict[str, Any]], *, bottom: int) -> dict[str, Any]:
    """The options of a chart whose values have this unit; `bottom`: the height of the texts below the axis."""
    return {
        "animation": False,
        "textStyle": {"fontFamily": "inherit", "color": GREY},
        "legend": {"type": "scroll", "bottom": 0, "icon": "circle", "itemHeight": 12, "textStyle": {"color": GREY}},
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "grid": {"left": 8, "right": 16, "top": 34, "bottom": bottom, "containLabel": True},
        "xAxis": {"axisLine": {"lineStyle": {"color": GREY}}} | x_axis,
        "yAxis": {
            "type": "value",
            "position": "left",
            "name": unit,
            "nameTextStyle": {"align": "left"},
            "min": 0,
            "splitNumber": 3,
            "axisLine": {"show": False, "onZero": False},
            "axisTick": {"show": False},
            "splitLine": {"lineStyle": {"color": GREY, "opacity": 0.25}},
        },
        "series": series,
    }


Unit = Callable[[float], tuple[float, str]]
COLOURS = {"blue": "#2b8aa6", "green": "#4f9a6b", "red": "#b65f74", "amber": "#b07c1e"}
FORMATS = {
    TimeResolution.MINUTE: "%H:%M",
    TimeResolution.HOUR: "%d %b %H:00",
    TimeResolution.DAY: "%d %b",
    TimeResolution.WEEK: "%d %b",
    TimeResolution.MONTH: "%b %Y",
}


@dataclass(frozen=True, slots=True)
class BarSeries:
    """One colour of a stack, and the figure that it shows."""

    name: str
    colour: str
    value: Callable[[UsageFigures], float]


class BarChart:
    """A bar chart. `unit` chooses the unit for the highest stack: its size, and its name."""

    def __init__(self, label: str, parts: Sequence[BarSeries], unit: Unit) -> None:
        self._parts = parts
        self._unit = unit
        self._chart = add_chart(label)

    def show_figures(self, figures: Sequence[UsageFigures], by: TimeResolution) -> None:
        update_chart(self._chart, build_chart_options(figures, by, self._parts, self._unit))


def build_chart_options(
    figures: Sequence[UsageFigures], by: TimeResolution, parts: Sequence[BarSeries], unit: Unit
) -> dict[str, Any]:
    scale, name = unit(max((sum(p.value(f) for p in parts) for f in figures), default=0.0))
    periods = [format_period(f.begin, by) for f in figures]
    x_axis = {"type": "category", "data": periods, "axisTick": {"show": False}}
    return build_options(name, x_axis, [_build_series(part, figures, scale) for part in parts], bottom=44)


def _build_series(part: BarSeries, figures: Sequence[UsageFigures], scale: float) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": part.name,
        "stack": "all",
        "barMaxWidth": 28,
        "itemStyle": {"color": COLOURS[part.colour]},
        "data": [round(part.value(f) / scale, 3) for f in figures],
    }


def format_period(begin: float, by: TimeResolution) -> str:
    """The begin of a period in UTC, as short as the resolution allows.

    >>> format_period(0.0, TimeResolution.DAY), format_period(3600.0, TimeResolution.HOUR)
    ('01 Jan', '01 Jan 01:00')
    """
    return f"{dt.datetime.fromtimestamp(begin, dt.UTC):{FORMATS[by]}}"


def choose_count_unit(_most: float) -> tuple[float, str]:
    return 1.0, ""


def choose_time_unit(most: float) -> tuple[float, str]:
    """
    >>> choose_time_unit(90.0), choose_time_unit(9000.0)
    ((1.0, 'seconds'), (3600.0, 'hours'))
    """
    units = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
    return next((u, n) for u, n in units if most >= 2 * u or u == 1.0)


def choose_size_unit(most: float) -> tuple[float, str]:
    """
    >>> choose_size_unit(3e6), choose_size_unit(7.0)
    ((1000000.0, 'MB'), (1.0, 'bytes'))
    """
    units = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
    return next((u, n) for u, n in units if most >= u or u == 1.0)
