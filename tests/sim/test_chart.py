"""Charts: lines, texts and ticks."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tidemill.sim.chart import AxisScale, render_line_chart

SVG = "{http://www.w3.org/2000/svg}"


def render(**lines: list[tuple[float, float]]) -> ElementTree.Element:
    return ElementTree.fromstring(render_line_chart("a < b", "x", "y", lines))


def parse_points(line: ElementTree.Element) -> list[tuple[float, float]]:
    pairs = [pair.split(",") for pair in line.attrib["points"].split()]
    return [(float(x), float(y)) for x, y in pairs]


def test_lines_pass_through_their_points() -> None:
    chart = render(up=[(0, 1), (1, 2)], down=[(0, 2), (0.5, 1.5), (1, 1)])
    up, down = map(parse_points, chart.findall(f"{SVG}polyline"))
    assert up[0][0] == down[0][0] < down[1][0] < up[1][0] == down[2][0]
    assert up[0][1] == down[2][1] > down[1][1] > up[1][1] == down[0][1]  # pixels count downwards
    assert len(chart.findall(f"{SVG}circle")) == 5


def test_names_are_escaped() -> None:
    texts = {text.text for text in render(curve=[(0, 0)]).findall(f"{SVG}text")}
    assert {"a < b", "x", "y", "curve"} <= texts


def test_one_point_or_none_can_be_drawn() -> None:
    assert len(render(one=[(3, 3)]).findall(f"{SVG}circle")) == 1
    assert len(render(none=[]).findall(f"{SVG}circle")) == 0


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.3, 1.0, [0.4, 0.6, 0.8, 1.0]),
        (1, 9, [2, 4, 6, 8]),
        (-5, 25, [-5, 0, 5, 10, 15, 20, 25]),
        (1000, 1006, [1000, 1001, 1002, 1003, 1004, 1005, 1006]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, ticks: list[float]) -> None:
    assert AxisScale(low, high, 0, 100).list_ticks() == pytest.approx(ticks)
