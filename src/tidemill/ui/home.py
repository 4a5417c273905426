"""`/`: the graph of channels and tasks."""

from __future__ import annotations

from collections import Counter

from nicegui import ui

from tidemill.ui.card import Card, cards, waiting_edges
from tidemill.ui.context import Desk, off_loop
from tidemill.ui.elements import Badge, Text, box, link
from tidemill.ui.graph import Graph, graph
from tidemill.ui.health import Standing, judged
from tidemill.ui.layout import GAP, Edge, Layout, Place, layout
from tidemill.ui.page_frame import frame
from tidemill.ui.snapshot import Snapshot

COLUMN, CARD = 100.0, 80.0
"""The width of a column, and what of it a card takes; the drawing is stretched to the page."""
CHANNEL_HEIGHT, TASK_HEIGHT = 118.0, 80.0


async def home(desk: Desk, *, states: bool) -> None:
    with frame(desk, "/", "Graph"):
        view = _Home(desk, states)
        await desk.keep(view.show)


class _Home:
    def __init__(self, desk: Desk, states: bool) -> None:
        self._desk = desk
        self._states = states
        self._welcome = _welcome()
        with box("legend-line") as self._line:
            Text("How everything stands", "h1", "unseen")
            self._legend = _Legend()
            link(*(("Hide state channels", "/") if states else ("Show state channels", "/?states=1")), "quiet")
        self._hint = Text("", "p", "hint")
        self._drawing = _Drawing()

    async def show(self) -> None:
        snapshot = await self._desk.feed.snapshot()
        now = await off_loop(self._desk.mill.catalog.now)
        self._welcome.set_visibility(snapshot.empty)
        self._line.set_visibility(not snapshot.empty)
        self._show_hint(snapshot)
        shown = snapshot.shown(states=self._states)
        standings = judged(snapshot, now)
        drawn = graph(shown)
        self._legend.show(Counter(standings.channels[c.registered.channel.name].standing for c in shown.channels))
        self._drawing.show(drawn, cards(snapshot, shown, drawn, standings, now), waiting_edges(snapshot, drawn))

    def _show_hint(self, snapshot: Snapshot) -> None:
        inputs = snapshot.inputs()
        fed = any(c.registered.head.seq for c in snapshot.status.channels)
        if inputs:
            self._hint.set_text(f"No data has come yet. Bring the first:  tidemill insert {inputs[0]} FILE")
        self._hint.set_visibility(bool(inputs) and not fed)


def _welcome() -> ui.element:
    with box("welcome") as made:
        Text("Nothing is registered yet", "h1")
        Text("Two commands, in the directory of your project:", "p", "muted")
        Text("tidemill apply", "pre")
        Text("registers the channels and flows that your workflow files declare;", "p", "muted")
        Text("tidemill insert CHANNEL FILE", "pre")
        Text("brings the first data. The graph appears here by itself.", "p", "muted")
    return made


class _Legend:
    """How many channels stand how; it also says what the colours mean."""

    def __init__(self) -> None:
        self._counts: dict[Standing, Text] = {}
        self._items: dict[Standing, ui.element] = {}
        with box("legend", "ul"):
            for standing in reversed(Standing):
                with box("legend-item", "li") as self._items[standing]:
                    self._counts[standing] = Text("0", classes="legend-count")
                    Badge(standing)

    def show(self, counts: Counter[Standing]) -> None:
        for standing, text in self._counts.items():
            text.set_text(str(counts[standing]))
            self._items[standing].set_visibility(bool(counts[standing]))


class _Drawing:
    """The graph. It is made anew when its nodes or edges are others; else what it says changes in place."""

    def __init__(self) -> None:
        self._pane = box("pane")
        self._drawn: Graph | None = None
        self._cards: dict[str, _CardView] = {}
        self._lines: dict[Edge, ui.element] = {}

    def show(self, drawn: Graph, said: dict[str, Card], waiting: set[Edge]) -> None:
        if drawn != self._drawn:
            self._draw(drawn, said)
        for key, card in said.items():
            self._cards[key].show(card)
        for edge, line in self._lines.items():
            line.classes(**{"add" if edge in waiting else "remove": "waits"})

    def _draw(self, drawn: Graph, said: dict[str, Card]) -> None:
        heights = {n.key: CHANNEL_HEIGHT if n.channel is not None else TASK_HEIGHT for n in drawn.nodes}
        placed = layout(heights, drawn.edges)
        width = max(placed.columns * COLUMN - (COLUMN - CARD), 1.0)
        self._pane.clear()
        with self._pane, box("graph") as whole:
            whole.style(f"height: {placed.height + GAP:.0f}px; --columns: {placed.columns}")
            self._lines = _lines(placed, width)
            order = sorted(drawn.nodes, key=lambda n: (placed.places[n.key].column, placed.places[n.key].middle))
            self._cards = {n.key: _CardView(said[n.key], placed.places[n.key], heights[n.key], width) for n in order}
        self._drawn = drawn


def _lines(placed: Layout, width: float) -> dict[Edge, ui.element]:
    with box("lines", "svg") as picture:
        picture.props["viewBox"] = f"0 0 {width:g} {placed.height + GAP:g}"
        picture.props["preserveAspectRatio"] = "none"
        picture.props["aria-hidden"] = "true"
        return {edge: _line(route) for edge, route in placed.routes.items()}


def _line(route: tuple[Place, ...]) -> ui.element:
    made = box("line", "path")
    made.props["d"] = path(route)
    return made


def path(route: tuple[Place, ...]) -> str:
    """The curve of an edge: out of the first node on its right, through the lanes between, into the last on its left.

    >>> path((Place(0, 10), Place(1, 30)))
    'M 80 10 C 90 10 90 30 100 30'
    """
    x, y = route[0].column * COLUMN + CARD, route[0].middle
    drawn = [f"M {x:g} {y:g}"]
    for place in route[1:]:
        left, half = place.column * COLUMN, (COLUMN - CARD) / 2
        drawn.append(f"C {x + half:g} {y:g} {x + half:g} {place.middle:g} {left:g} {place.middle:g}")
        x, y = left + CARD, place.middle
        if place is not route[-1]:
            drawn.append(f"H {x:g}")
    return " ".join(drawn)


class _CardView:
    """One node."""

    def __init__(self, card: Card, place: Place, height: float, width: float) -> None:
        left, share = place.column * COLUMN / width * 100, CARD / width * 100
        with box("card") as self._box:
            self._box.style(
                f"left: {left:.3f}%; width: {share:.3f}%; top: {place.middle - height / 2:.1f}px; height: {height:g}px"
            )
            with box("card-top"):
                if card.eyebrow_href:
                    link(card.eyebrow, card.eyebrow_href, "eyebrow over")
                else:
                    Text(card.eyebrow, classes="eyebrow")
                self._badge = Badge(card.judgement.standing)
            link(card.name, card.href, "card-name")
            self._facts = [Text(fact, "p", "card-fact") for fact in card.facts]
            self._why = Text("", "p", "card-fact card-why")
            if card.sources:
                Text(f"from {card.sources}", "p", "card-fact card-from")
        self._standing = ""

    def show(self, card: Card) -> None:
        standing = card.judgement.standing
        self._badge.show(standing)
        self._box.classes(remove=f"tone-{self._standing}", add=f"tone-{standing}")
        self._standing = standing
        self._why.set_text(card.judgement.why)
        self._why.props["title"] = card.judgement.why
        for text, fact in zip(self._facts, card.facts, strict=True):
            text.set_text(fact)
            text.props["title"] = fact
