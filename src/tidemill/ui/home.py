"""`/`: the graph of channels and tasks."""

from collections import Counter

from nicegui import ui

from tidemill.model.channel import ChannelRole
from tidemill.runtime.inspect.status import hide_state_channels
from tidemill.ui.context import PageContext, open_frame
from tidemill.ui.elements import HtmlText, StateBadge, add_box, add_link
from tidemill.ui.graph import (
    MAX_NODES,
    DiagramGraph,
    NodeCard,
    build_cards,
    build_graph,
    find_waiting_edges,
    select_nodes,
)
from tidemill.ui.health import HealthState, ProjectHealth, judge_health
from tidemill.ui.layout import GAP, DiagramLayout, DiagramPlace, Edge, compute_layout
from tidemill.ui.snapshot import ProjectSnapshot

COLUMN, CARD = 100.0, 80.0
"""The width of a column, and of a card in it; the drawing is stretched to the page."""
CHANNEL_HEIGHT, TASK_HEIGHT = 118.0, 80.0


async def show_home(context: PageContext, states: bool = False) -> None:
    with open_frame(context, "/", "Graph"):
        page = _HomePage(context, states)
        refresh = await context.keep_refreshing(page.refresh_page)
        page.filter_input.on_value_change(lambda _: refresh())


class _HomePage:
    def __init__(self, context: PageContext, states: bool) -> None:
        self._context = context
        self._states = states
        self._welcome = _add_welcome()
        with add_box("legend-line") as self._line:
            HtmlText("Status", "h1", "unseen")
            self._legend = _HealthLegend()
            add_link(*(("Hide state channels", "/") if states else ("Show state channels", "/?states=1")), "quiet")
        self._hint = HtmlText("", "p", "hint")
        self.filter_input = ui.input("Filter", placeholder="words of a name").classes("filter")
        self.filter_input.props("outlined dense clearable debounce=200")
        self._selection = HtmlText("", "p", "hint")
        self._drawing = _GraphDrawing()

    async def refresh_page(self, snapshot: ProjectSnapshot, now: float) -> None:
        self._welcome.set_visibility(snapshot.is_empty)
        self._line.set_visibility(not snapshot.is_empty)
        self._show_hint(snapshot)
        status = snapshot.status if self._states else hide_state_channels(snapshot.status)
        health = judge_health(snapshot, now)
        graph = self._select_nodes(build_graph(status), health)
        self._legend.show_counts(Counter(health.channels[c.registered.channel.name].state for c in status.channels))
        self._drawing.show_graph(
            graph, build_cards(snapshot, status, graph, health, now), find_waiting_edges(snapshot, graph)
        )

    def _select_nodes(self, graph: DiagramGraph, health: ProjectHealth) -> DiagramGraph:
        """The nodes to draw; a large graph can be filtered."""
        is_large = len(graph.nodes) > MAX_NODES
        selected = select_nodes(graph, health, self.filter_input.value or "") if is_large else graph
        self.filter_input.set_visibility(is_large)
        self._selection.set_visibility(is_large)
        self._selection.set_text(
            f"{len(selected.nodes)} of {len(graph.nodes)} are shown: first those that run, failed, are late or wait."
        )
        return selected

    def _show_hint(self, snapshot: ProjectSnapshot) -> None:
        channels = [c.registered for c in snapshot.status.channels]
        inputs = [c.channel.name for c in channels if c.channel.role is ChannelRole.INPUT]
        has_data = any(c.head.seq for c in channels)
        if inputs:
            self._hint.set_text(f"There is no data yet. Insert some:  tidemill insert {inputs[0]} FILE")
        self._hint.set_visibility(bool(inputs) and not has_data)


def _add_welcome() -> ui.element:
    with add_box("welcome") as box:
        HtmlText("Nothing is registered yet", "h1")
        HtmlText("Two commands, in the directory of your project:", "p", "muted")
        HtmlText("tidemill apply", "pre")
        HtmlText("registers the channels and flows that your workflow files declare;", "p", "muted")
        HtmlText("tidemill insert CHANNEL FILE", "pre")
        HtmlText("inserts the first data. The graph then appears here.", "p", "muted")
    return box


class _HealthLegend:
    """The number of channels in each state; it also explains the colours."""

    def __init__(self) -> None:
        self._counts: dict[HealthState, HtmlText] = {}
        self._items: dict[HealthState, ui.element] = {}
        with add_box("legend", "ul"):
            for standing in reversed(HealthState):
                with add_box("legend-item", "li") as self._items[standing]:
                    self._counts[standing] = HtmlText("0", classes="legend-count")
                    StateBadge(standing)

    def show_counts(self, counts: Counter[HealthState]) -> None:
        for standing, text in self._counts.items():
            text.set_text(str(counts[standing]))
            self._items[standing].set_visibility(bool(counts[standing]))


class _GraphDrawing:
    """The graph. It is rebuilt when its nodes or edges change; else its texts are updated in place."""

    def __init__(self) -> None:
        self._pane = add_box("pane")
        self._graph: DiagramGraph | None = None
        self._cards: dict[str, _CardView] = {}
        self._lines: dict[Edge, ui.element] = {}

    def show_graph(self, graph: DiagramGraph, cards: dict[str, NodeCard], waiting_edges: set[Edge]) -> None:
        if graph != self._graph:
            self._draw_graph(graph, cards)
        for key, card in cards.items():
            self._cards[key].show_card(card)
        for edge, line in self._lines.items():
            line.classes(**{"add" if edge in waiting_edges else "remove": "waits"})

    def _draw_graph(self, graph: DiagramGraph, cards: dict[str, NodeCard]) -> None:
        heights = {n.key: CHANNEL_HEIGHT if n.channel is not None else TASK_HEIGHT for n in graph.nodes}
        layout = compute_layout(heights, graph.edges)
        width = max(layout.columns * COLUMN - (COLUMN - CARD), 1.0)
        self._pane.clear()
        with self._pane, add_box("graph") as canvas:
            canvas.style(f"height: {layout.height + GAP:.0f}px; --columns: {layout.columns}")
            self._lines = _draw_lines(layout, width)
            order = sorted(graph.nodes, key=lambda n: (layout.places[n.key].column, layout.places[n.key].middle))
            self._cards = {n.key: _CardView(cards[n.key], layout.places[n.key], heights[n.key], width) for n in order}
        self._graph = graph


def _draw_lines(layout: DiagramLayout, width: float) -> dict[Edge, ui.element]:
    with add_box("lines", "svg") as picture:
        picture.props["viewBox"] = f"0 0 {width:g} {layout.height + GAP:g}"
        picture.props["preserveAspectRatio"] = "none"
        picture.props["aria-hidden"] = "true"
        lines = {edge: add_box("line", "path") for edge in layout.routes}
    for edge, route in layout.routes.items():
        lines[edge].props["d"] = format_path(route)
    return lines


def format_path(route: tuple[DiagramPlace, ...]) -> str:
    """The curve of an edge: from the right side of the first node, through the lanes, to the left side of the last.

    >>> format_path((DiagramPlace(0, 10), DiagramPlace(1, 30)))
    'M 80 10 C 90 10 90 30 100 30'
    """
    x, y = route[0].column * COLUMN + CARD, route[0].middle
    segments = [f"M {x:g} {y:g}"]
    for place in route[1:]:
        left, half = place.column * COLUMN, (COLUMN - CARD) / 2
        segments.append(f"C {x + half:g} {y:g} {x + half:g} {place.middle:g} {left:g} {place.middle:g}")
        x, y = left + CARD, place.middle
        if place is not route[-1]:
            segments.append(f"H {x:g}")
    return " ".join(segments)


class _CardView:
    def __init__(self, card: NodeCard, place: DiagramPlace, height: float, width: float) -> None:
        left, share = place.column * COLUMN / width * 100, CARD / width * 100
        with add_box("card") as self._box:
            self._box.style(
                f"left: {left:.3f}%; width: {share:.3f}%; top: {place.middle - height / 2:.1f}px; height: {height:g}px"
            )
            with add_box("card-top"):
                if card.eyebrow_href:
                    add_link(card.eyebrow, card.eyebrow_href, "eyebrow over")
                else:
                    HtmlText(card.eyebrow, classes="eyebrow")
                self._badge = StateBadge(card.verdict.state)
            add_link(card.name, card.href, "card-name")
            self._facts = [HtmlText(fact, "p", "card-fact") for fact in card.facts]
            self._reason = HtmlText("", "p", "card-fact card-why")
            if card.sources:
                HtmlText(f"from {card.sources}", "p", "card-fact card-from")
        self._state = ""

    def show_card(self, card: NodeCard) -> None:
        standing = card.verdict.state
        self._badge.show_state(standing)
        self._box.classes(remove=f"tone-{self._state}", add=f"tone-{standing}")
        self._state = standing
        self._reason.set_text(card.verdict.reason)
        self._reason.props["title"] = card.verdict.reason
        for text, fact in zip(self._facts, card.facts, strict=True):
            text.set_text(fact)
            text.props["title"] = fact
