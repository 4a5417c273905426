"""Small workflows, drawn at random, and their histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from hypothesis import strategies as st

from tidemill.model.provenance import Provenance
from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import Stock
from tidemill.planner.graph import (
    APPLY,
    APPLY_WEAK,
    DIFFERENCE,
    NOTHING,
    STRENGTHEN,
    Block,
    Bounds,
    Channel,
    Graph,
    Shape,
    Size,
    Take,
    Task,
    Variant,
)
from tidemill.planner.graph_index import Layout
from tidemill.planner.steps import Estimate, Plan
from tidemill.planner.vector import Clock, unpacked

B, D, M, W = Shape.BASE, Shape.STRONG, Shape.MONOTONE, Shape.WEAK
BASE, DELTA, WITH_OLD = Take(B), Take(D), Take(D, old=True)

BATCH = Variant("batch", (BASE,), (B,))
LINEAR = (BATCH, Variant("incremental", (DELTA,), (D,)))
COUNTING = (BATCH, Variant("incremental", (DELTA,), (W,)))
WITH_STATE = (BATCH, Variant("incremental", (WITH_OLD,), (D,)))
SPLIT = (Variant("batch", (BASE,), (B, B)), Variant("incremental", (DELTA,), (D, D)))
JOIN = (
    Variant("batch", (BASE, BASE), (B,)),
    Variant("both", (WITH_OLD, WITH_OLD), (D,)),
    Variant("left", (DELTA, BASE), (D,)),
    Variant("right", (BASE, DELTA), (D,)),
)
UNION = (
    Variant("batch", (BASE, BASE), (B,)),
    Variant("both", (DELTA, DELTA), (D,)),
    Variant("left", (DELTA, NOTHING), (D,)),
    Variant("right", (NOTHING, DELTA), (D,)),
)


def price(task: str, variant: str, weight: float, market: int = 0) -> float:
    """Some price, the same whenever it is asked on a market; whole numbers, so that sums can be compared."""
    chance = crc32(f"{task} {variant}".encode(), market)
    return 1.0 + chance % 17 + weight * (1 + chance // 17 % 5)


def weight(block: Block) -> int:
    source = block.source or ((),) * len(block.target)
    return sum(max(t) - max(s, default=0) for s, t in zip(source, block.target, strict=True) if t)


def costs(task: str, variant: str, reads: Sequence[Block], market: int = 0) -> Estimate:
    cost = price(task, variant, sum(map(weight, reads)), market)
    return Estimate(cost, (Size(1, 1),) * (2 if task == "split" else 1))


@dataclass(frozen=True)
class Arrival:
    channel: str
    after: int
    whole: bool  # as a base


@dataclass(frozen=True)
class Case:
    graph: Graph
    arrivals: tuple[Arrival, ...]
    market: int = 0  # what steps cost


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    shape = draw(st.sampled_from(["one", "chain", "join", "union", "split", "shared"]))
    conversions = st.sampled_from([(APPLY,), (APPLY, DIFFERENCE), (APPLY, APPLY_WEAK, STRENGTHEN)])
    linear = st.sampled_from([LINEAR, COUNTING, WITH_STATE])
    tasks: tuple[Task, ...]
    match shape:
        case "one":
            tasks = (Task("t", ("a",), ("out",), draw(linear)),)
        case "chain":
            tasks = (Task("t", ("a",), ("m",), draw(linear)), Task("u", ("m",), ("out",), draw(linear)))
        case "join":
            tasks = (Task("t", ("b",), ("m",), draw(linear)), Task("u", ("a", "m"), ("out",), JOIN))
        case "union":
            tasks = (Task("t", ("b",), ("m",), draw(linear)), Task("u", ("a", "m"), ("out",), UNION))
        case "split":
            tasks = (Task("split", ("a",), ("m", "n"), SPLIT), Task("u", ("m", "n"), ("out",), UNION))
        case _:
            tasks = (
                Task("t", ("a",), ("m",), draw(linear)),
                Task("s", ("a",), ("n",), draw(linear)),
                Task("u", ("m", "n"), ("out",), draw(st.sampled_from([JOIN, UNION]))),
            )
    names = list(dict.fromkeys(c for t in tasks for c in (*t.reads, *t.writes)))
    accepts = draw(st.sampled_from([frozenset([B]), frozenset([D]), frozenset([B, D])]))
    channels = tuple(
        Channel(n, accepts=accepts if n == "out" else frozenset(), conversions=draw(conversions)) for n in names
    )
    bare = Graph(channels, tasks)
    return _bounded(draw, bare)


def _bounded(draw: st.DrawFn, graph: Graph) -> Graph:
    pathways = Layout(graph).pathways
    times = st.sampled_from([0, 0, 3, 10])
    channels = []
    for channel in graph.channels:
        if channel.name == "out":
            staleness = {p: draw(times) for i, p in enumerate(pathways["out"]) if i == 0 or draw(st.booleans())}
            bounds = Bounds(staleness, draw(st.sampled_from([None, None, 0, 5, 12])))
        else:
            middle = channel.name in ("m", "n") and draw(st.booleans())
            bounds = Bounds({p: draw(times) for p in pathways[channel.name]} if middle else {})
        channels.append(Channel(channel.name, bounds, channel.accepts, channel.conversions))
    return Graph(tuple(channels), graph.tasks)


@st.composite
def cases(draw: st.DrawFn, most: int = 5) -> Case:
    graph = draw(graphs())
    inputs = [c.name for c in graph.channels if c.name in ("a", "b")]
    arrivals = st.builds(Arrival, st.sampled_from(inputs), st.integers(1, 6), st.booleans())
    return Case(graph, tuple(draw(st.lists(arrivals, min_size=1, max_size=most))))


@st.composite
def cases_with_starts(draw: st.DrawFn) -> Case:
    """Deltas that arrive on workflows in which old bases are needed, to make deltas strong and to join."""
    every = (APPLY, APPLY_WEAK, STRENGTHEN)
    tasks: tuple[Task, ...]
    match draw(st.sampled_from(["one", "chain", "join"])):
        case "one":
            tasks = (Task("t", ("a",), ("out",), COUNTING),)
        case "chain":
            tasks = (Task("t", ("a",), ("m",), COUNTING), Task("u", ("m",), ("out",), WITH_STATE))
        case _:
            tasks = (Task("t", ("b",), ("m",), COUNTING), Task("u", ("a", "m"), ("out",), JOIN[:2]))
    names = list(dict.fromkeys(c for t in tasks for c in (*t.reads, *t.writes)))
    accepted = frozenset([B, D])
    channels = tuple(Channel(n, accepts=accepted if n == "out" else frozenset(), conversions=every) for n in names)
    graph = _bounded(draw, Graph(channels, tasks))
    inputs = [c.name for c in graph.channels if c.name in ("a", "b")]
    arrivals = st.builds(Arrival, st.sampled_from(inputs), st.integers(1, 6), st.just(False))
    return Case(graph, tuple(draw(st.lists(arrivals, min_size=2, max_size=4))), draw(st.integers(0, 99)))


class History:
    """A stock to which things happen, beside everything that ever was."""

    def __init__(self, graph: Graph, stock: Stock) -> None:
        self.graph, self.stock = graph, stock
        self.inputs = [c.name for c in graph.channels if c.name not in stock.layout.writer]
        self.versions = {name: [i + 1] for i, name in enumerate(self.inputs)}
        self.now = 5
        self.everything: list[Block] = []
        for name in self.inputs:
            first = ((self.versions[name][0],),)
            self._add(Block(name, B, None, first, Size(1, 1)))
            self._add(Block(name, D, ((),), first, Size(1, 1)))  # who takes only deltas starts from nothing

    @property
    def time(self) -> Timeline:
        return Timeline({k: tuple(v) for k, v in self.versions.items()}, self.now)

    @property
    def points(self) -> set[tuple[str, Provenance]]:
        """Where stale bases are of use."""
        layout = self.stock.layout
        return {(c, unpacked(p, layout.pathways[c])) for c in layout.supported for p in self.stock.points(c)}

    def arrive(self, arrival: Arrival) -> None:
        self.now += arrival.after
        before = self.versions[arrival.channel][-1]
        self.versions[arrival.channel].append(self.now)
        source = None if arrival.whole else ((before,),)
        self._add(Block(arrival.channel, B if arrival.whole else D, source, ((self.now,),), Size(1, 1)))
        self.now += 1

    def run(self, plan: Plan) -> None:
        for step in plan.steps:
            for block in step.makes:
                self._add(block)
        if plan.delivers is not None:
            self.stock.deliver(plan.delivers)
        self.stock.settle(self.stock.layout.channels, Clock(self.time, self.stock.layout.inputs))

    def _add(self, block: Block) -> None:
        self.everything.append(block)
        self.stock.add(block)
