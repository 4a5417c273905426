"""Line charts as SVG, without dependencies, for the curves of a simulation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count, takewhile
from math import floor, log10

WIDTH, HEIGHT = 840, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 170, 44, 52
COLOURS = ("#0a6c86", "#d1495b", "#edae49", "#2e8b57", "#6a4c93", "#555555", "#b5651d", "#1b998b", "#c71585")
STEPS = 6
MAX_MARKED_POINTS = 60
"""Number of points from which on the points of a line are not marked."""

Line = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class AxisScale:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def list_ticks(self) -> list[float]:
        step = _round_step((self.high - self.low) / STEPS)
        first = floor(self.low / step + 1 - 1e-9)
        return list(takewhile(lambda v: v <= self.high + step / 1e6, (round((first + i) * step, 10) for i in count())))


def render_line_chart(title: str, x_label: str, y_label: str, lines: Mapping[str, Line]) -> str:
    """Render a document with a line for each name; lines need not have the same points."""
    x = _build_scale([px for line in lines.values() for px, _ in line], LEFT, WIDTH - RIGHT)
    y = _build_scale([py for line in lines.values() for _, py in line], HEIGHT - BOTTOM, TOP)
    parts = [*_render_frame(title, x_label, y_label), *_render_grid(x, y)]
    for number, (name, line) in enumerate(lines.items()):
        parts += _render_line(name, line, COLOURS[number % len(COLOURS)], number, x, y)
    box, font = f'viewBox="0 0 {WIDTH} {HEIGHT}"', 'font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} {font}>'
    return "\n".join([head, *parts, "</svg>", ""])


def _build_scale(values: Sequence[float], start: float, end: float) -> AxisScale:
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return AxisScale(low, high, start, end)


def _round_step(minimum: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, …, at any power of ten."""
    power = 10.0 ** floor(log10(minimum))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= minimum * (1 - 1e-9))


def _render_frame(title: str, x_label: str, y_label: str) -> Iterator[str]:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    yield f'<text x="{LEFT}" y="20" font-size="15">{escape(title)}</text>'
    yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>'
    yield f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'


def _render_grid(x: AxisScale, y: AxisScale) -> Iterator[str]:
    for value in x.list_ticks():
        yield f'<path d="M{x(value)} {y.start}V{y.end}" stroke="#eee"/>'
        yield f'<text x="{x(value)}" y="{y.start + 18}" text-anchor="middle">{value:g}</text>'
    for value in y.list_ticks():
        yield f'<path d="M{x.start} {y(value)}H{x.end}" stroke="#eee"/>'
        yield f'<text x="{x.start - 8}" y="{y(value) + 4}" text-anchor="end">{value:g}</text>'
    yield f'<path d="M{x.start} {y.end}V{y.start}H{x.end}" fill="none" stroke="#888"/>'


def _render_line(name: str, line: Line, colour: str, number: int, x: AxisScale, y: AxisScale) -> Iterator[str]:
    points = " ".join(f"{x(px)},{y(py)}" for px, py in line)
    yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
    if len(line) < MAX_MARKED_POINTS:
        yield from (f'<circle cx="{x(px)}" cy="{y(py)}" r="2.5" fill="{colour}"/>' for px, py in line)
    legend_x, legend_y = WIDTH - RIGHT + 12, TOP + 14 + 18 * number
    yield f'<path d="M{legend_x} {legend_y - 4}h18" stroke="{colour}" stroke-width="3"/>'
    yield f'<text x="{legend_x + 24}" y="{legend_y}">{escape(name)}</text>'
