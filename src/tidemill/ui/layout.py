"""Where the nodes of a graph stand: in columns from left to right, so that edges are short and seldom cross.

The usual three steps: each node goes right of all it is made from; within a column nodes are ordered by where their
neighbours are; then heights are evened out. An edge over several columns gets a place in each, so that it passes
between nodes and not behind them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from statistics import fmean

Edge = tuple[str, str]

GAP = 18.0  # between nodes of a column, in pixels
LANE = 10.0  # the height of an edge that passes a column
SWEEPS = 8


@dataclass(frozen=True, slots=True)
class DiagramPlace:
    """Where a node stands: its column, and the pixels from the top to its middle."""

    column: int
    middle: float


@dataclass(frozen=True, slots=True)
class DiagramLayout:
    """Places of all nodes, and of each edge the points it goes through, its two ends included."""

    columns: int
    height: float
    places: Mapping[str, DiagramPlace]
    routes: Mapping[Edge, tuple[DiagramPlace, ...]]


def compute_layout(heights: Mapping[str, float], edges: Sequence[Edge]) -> DiagramLayout:
    """Lay out nodes of the given heights. Where edges form a cycle, as several workflows may, one of them goes back."""
    ranks = _compute_ranks(heights, edges)
    drawing = _LayoutBuilder(dict(heights))
    for key, rank in ranks.items():
        drawing.add_node(key, rank)
    routes = {(a, b): (a, *drawing.add_lane(a, b, ranks), b) for a, b in edges}
    for route in routes.values():
        drawing.link_nodes(route)
    drawing.order_columns()
    places = drawing.compute_places()
    found = {edge: tuple(places[key] for key in route) for edge, route in routes.items()}
    return DiagramLayout(len(drawing.columns), drawing.height, {k: places[k] for k in heights}, found)


def _compute_ranks(heights: Mapping[str, float], edges: Iterable[Edge]) -> dict[str, int]:
    """The longest way to each node."""
    before: dict[str, set[str]] = {key: set() for key in heights}
    for source, target in edges:
        before[target].add(source)
    ranks: dict[str, int] = {}
    for key in _sort_topologically(before):
        ranks[key] = max((ranks[b] + 1 for b in before[key]), default=0)
    return {key: ranks[key] for key in heights}


def _sort_topologically(before: dict[str, set[str]]) -> tuple[str, ...]:
    """Each node after those before it; edges that make this impossible are taken out of `before`."""
    while True:
        try:
            return tuple(TopologicalSorter(before).static_order())
        except CycleError as error:
            first, second, *_ = error.args[1]
            before[second].discard(first)


@dataclass
class _LayoutBuilder:
    """Columns under construction. Lanes are nodes like others, only low."""

    heights: dict[str, float]
    columns: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    rank: dict[str, int] = field(default_factory=dict)
    left: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    right: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    middle: dict[str, float] = field(default_factory=dict)
    height: float = 0.0

    def add_node(self, key: str, rank: int) -> None:
        self.rank[key] = rank
        self.columns[rank].append(key)

    def add_lane(self, source: str, target: str, ranks: Mapping[str, int]) -> Iterator[str]:
        for rank in range(ranks[source] + 1, ranks[target]):
            key = f"{source} to {target} at {rank}"
            self.heights[key] = LANE
            self.add_node(key, rank)
            yield key

    def link_nodes(self, route: Sequence[str]) -> None:
        for source, target in pairwise(route):
            self.right[source].append(target)
            self.left[target].append(source)

    def order_columns(self) -> None:
        """Sort each column by its neighbours' places, to and fro."""
        for sweep in range(SWEEPS):
            forwards = sweep % 2 == 0
            sides = self.left if forwards else self.right
            for rank in sorted(self.columns, reverse=not forwards):
                places = {k: i for column in self.columns.values() for i, k in enumerate(column)}
                self.columns[rank].sort(key=lambda k: _compute_mean([places[n] for n in sides[k]], places[k]))

    def compute_places(self) -> dict[str, DiagramPlace]:
        for column in self.columns.values():
            self._stack_column(column, {})
        for sweep in range(SWEEPS):
            forwards = sweep % 2 == 0
            for rank in sorted(self.columns, reverse=not forwards):
                sides = self.left if forwards else self.right
                wanted = {
                    k: _compute_mean([self.middle[n] for n in sides[k]], self.middle[k]) for k in self.columns[rank]
                }
                self._stack_column(self.columns[rank], wanted)
        self._shift_to_top()
        return {key: DiagramPlace(self.rank[key], self.middle[key]) for key in self.rank}

    def _stack_column(self, column: Sequence[str], wanted: Mapping[str, float]) -> None:
        """Put nodes as near as can be to where they want to be, in their order and without overlap."""
        below = float("-inf")
        for key in column:
            half = self.heights[key] / 2
            self.middle[key] = max(wanted.get(key, 0.0), below + half)
            below = self.middle[key] + half + GAP
        shift = fmean(wanted.get(k, 0.0) - self.middle[k] for k in column)
        for key in column:
            self.middle[key] += shift

    def _shift_to_top(self) -> None:
        top = min((self.middle[k] - self.heights[k] / 2 for k in self.rank), default=0.0)
        for key in self.rank:
            self.middle[key] -= top
        self.height = max((self.middle[k] + self.heights[k] / 2 for k in self.rank), default=0.0)


def _compute_mean(values: Sequence[float], otherwise: float) -> float:
    return fmean(values) if values else otherwise
