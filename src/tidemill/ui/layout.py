"""The layout of a graph's nodes: in columns from left to right, so that edges are short and rarely cross.

The usual three steps (layered graph drawing): each node is placed right of all its sources; within a column nodes are
ordered by the positions of their neighbours; then vertical positions are balanced. An edge over several columns gets a
position in each, so that it passes between nodes and not behind them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from statistics import fmean

Edge = tuple[str, str]

GAP = 18.0  # between nodes of a column, in pixels
LANE = 10.0  # the height of an edge that crosses a column
SWEEPS = 8


@dataclass(frozen=True, slots=True)
class DiagramPlace:
    """The position of a node: its column, and the pixels from the top to its middle."""

    column: int
    middle: float


@dataclass(frozen=True, slots=True)
class DiagramLayout:
    """The positions of all nodes, and of each edge the points that it passes, including its ends."""

    columns: int
    height: float
    places: Mapping[str, DiagramPlace]
    routes: Mapping[Edge, tuple[DiagramPlace, ...]]


def compute_layout(heights: Mapping[str, float], edges: Sequence[Edge]) -> DiagramLayout:
    """Lay out nodes of the given heights. If edges form a cycle, as several workflows may, one points backwards."""
    ranks = _compute_ranks(heights, edges)
    builder = _LayoutBuilder(dict(heights))
    for key, rank in ranks.items():
        builder.add_node(key, rank)
    routes = {(a, b): (a, *builder.add_lane(a, b, ranks), b) for a, b in edges}
    for route in routes.values():
        builder.link_nodes(route)
    builder.order_columns()
    places = builder.compute_places()
    points = {edge: tuple(places[key] for key in route) for edge, route in routes.items()}
    return DiagramLayout(len(builder.columns), builder.height, {k: places[k] for k in heights}, points)


def _compute_ranks(heights: Mapping[str, float], edges: Iterable[Edge]) -> dict[str, int]:
    """The length of the longest path to each node."""
    before: dict[str, set[str]] = {key: set() for key in heights}
    for source, target in edges:
        before[target].add(source)
    ranks: dict[str, int] = {}
    for key in _sort_topologically(before):
        ranks[key] = max((ranks[b] + 1 for b in before[key]), default=0)
    return {key: ranks[key] for key in heights}


def _sort_topologically(before: dict[str, set[str]]) -> tuple[str, ...]:
    """Each node after its predecessors; edges that make this impossible are removed from `before`."""
    while True:
        try:
            return tuple(TopologicalSorter(before).static_order())
        except CycleError as error:
            first, second, *_ = error.args[1]
            before[second].discard(first)


@dataclass
class _LayoutBuilder:
    """Columns under construction. Lanes are nodes with a small height."""

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
        """Sort each column by its neighbours' positions."""
        places = {k: i for column in self.columns.values() for i, k in enumerate(column)}
        for rank, sides in self._sweep_columns():
            column = self.columns[rank]
            column.sort(key=lambda k: _compute_mean([places[n] for n in sides[k]], places[k]))
            places |= {k: i for i, k in enumerate(column)}

    def compute_places(self) -> dict[str, DiagramPlace]:
        for column in self.columns.values():
            self._stack_column(column, {})
        for rank, sides in self._sweep_columns():
            column = self.columns[rank]
            targets = {k: _compute_mean([self.middle[n] for n in sides[k]], self.middle[k]) for k in column}
            self._stack_column(column, targets)
        self._shift_to_top()
        return {key: DiagramPlace(self.rank[key], self.middle[key]) for key in self.rank}

    def _sweep_columns(self) -> Iterator[tuple[int, dict[str, list[str]]]]:
        """Yield the columns in alternating directions, with the neighbours that were placed before."""
        for sweep in range(SWEEPS):
            is_forward = sweep % 2 == 0
            for rank in sorted(self.columns, reverse=not is_forward):
                yield rank, self.left if is_forward else self.right

    def _stack_column(self, column: Sequence[str], targets: Mapping[str, float]) -> None:
        """Place nodes as close as possible to their targets, in order and without overlap."""
        below = float("-inf")
        for key in column:
            half = self.heights[key] / 2
            self.middle[key] = max(targets.get(key, 0.0), below + half)
            below = self.middle[key] + half + GAP
        shift = fmean(targets.get(k, 0.0) - self.middle[k] for k in column)
        for key in column:
            self.middle[key] += shift

    def _shift_to_top(self) -> None:
        top = min((self.middle[k] - self.heights[k] / 2 for k in self.rank), default=0.0)
        for key in self.rank:
            self.middle[key] -= top
        self.height = max((self.middle[k] + self.heights[k] / 2 for k in self.rank), default=0.0)


def _compute_mean(values: Sequence[float], otherwise: float) -> float:
    return fmean(values) if values else otherwise
