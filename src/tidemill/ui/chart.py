"""What all charts have in common. Their texts are drawn, not parsed: names never become HTML."""

from __future__ import annotations

from typing import Any

from nicegui import ui

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
