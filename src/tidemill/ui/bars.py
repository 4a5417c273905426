"""Charts of figures by period: bars on top of each other, one stack for each minute, hour, day, week or month."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from tidemill.retention.usage_history import Figures, Resolution

Unit = Callable[[float], tuple[float, str]]
COLOURS = {"blue": "#2b8aa6", "green": "#4f9a6b", "red": "#b65f74", "amber": "#b07c1e"}
GREY = "#7c8b93"
FORMATS = {
    Resolution.MINUTE: "%H:%M",
    Resolution.HOUR: "%d %b %H:00",
    Resolution.DAY: "%d %b",
    Resolution.WEEK: "%d %b",
    Resolution.MONTH: "%b %Y",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One colour of a stack, and what it counts."""

    name: str
    colour: str
    value: Callable[[Figures], float]


class Bars:
    """A chart. `unit` says in what to count, given the highest stack: how much makes one, and its name."""

    def __init__(self, label: str, parts: Sequence[Part], unit: Unit) -> None:
        self._parts = parts
        self._unit = unit
        self._chart = ui.echart({}, renderer="svg").classes("chart")
        self._chart.props["role"] = "img"
        self._chart.props["aria-label"] = label

    def show(self, found: Sequence[Figures], by: Resolution) -> None:
        self._chart.options.clear()
        self._chart.options.update(options(found, by, self._parts, self._unit))
        self._chart.update()


def options(found: Sequence[Figures], by: Resolution, parts: Sequence[Part], unit: Unit) -> dict[str, Any]:
    """Its texts are drawn, not parsed: nothing in them becomes HTML."""
    scale, name = unit(max((sum(p.value(f) for p in parts) for f in found), default=0.0))
    return {
        "animation": False,
        "textStyle": {"fontFamily": "inherit", "color": GREY},
        "legend": {"bottom": 0, "icon": "circle", "itemHeight": 12, "textStyle": {"color": GREY}},
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "grid": {"left": 8, "right": 16, "top": 34, "bottom": 44, "containLabel": True},
        "xAxis": {
            "type": "category",
            "data": [period(f.begin, by) for f in found],
            "axisLine": {"lineStyle": {"color": GREY}},
            "axisTick": {"show": False},
        },
        "yAxis": {
            "type": "value",
            "name": name,
            "nameTextStyle": {"align": "left"},
            "min": 0,
            "splitNumber": 3,
            "splitLine": {"lineStyle": {"color": GREY, "opacity": 0.25}},
        },
        "series": [_series(part, found, scale) for part in parts],
    }


def _series(part: Part, found: Sequence[Figures], scale: float) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": part.name,
        "stack": "all",
        "barMaxWidth": 28,
        "itemStyle": {"color": COLOURS[part.colour]},
        "data": [round(part.value(f) / scale, 3) for f in found],
    }


def period(begin: float, by: Resolution) -> str:
    """When a period began, as short as the resolution allows; in UTC.

    >>> period(0.0, Resolution.DAY), period(3600.0, Resolution.HOUR)
    ('01 Jan', '01 Jan 01:00')
    """
    return f"{dt.datetime.fromtimestamp(begin, dt.UTC):{FORMATS[by]}}"


def counted(_most: float) -> tuple[float, str]:
    return 1.0, ""


def timed(most: float) -> tuple[float, str]:
    """
    >>> timed(90.0), timed(9000.0)
    ((1.0, 'seconds'), (3600.0, 'hours'))
    """
    units = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
    return next((u, n) for u, n in units if most >= 2 * u or u == 1.0)


def sized(most: float) -> tuple[float, str]:
    """
    >>> sized(3e6), sized(7.0)
    ((1000000.0, 'MB'), (1.0, 'bytes'))
    """
    units = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
    return next((u, n) for u, n in units if most >= u or u == 1.0)
