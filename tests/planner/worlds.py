"""Small workflows, drawn at random, and their histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from hypothesis import strategies as st

from tidemill.model.provenance import Provenance
from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.graph import (
    APPLY,
    APPLY_WEAK,
    DIFFERENCE,
    NOTHING,
    STRENGTHEN,
    BlockNode,
    BlockShape,
    ChannelBounds,
    ChannelNode,
    DataSize,
    PlanningGraph,
    PortRequirement,
    TaskNode,
    VariantNode,
)
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.steps import CostEstimate, Plan
from tidemill.planner.vector import PlanningClock, unpack_vector

B, D, M, W = BlockShape.BASE, BlockShape.STRONG, BlockShape.MONOTONE, BlockShape.WEAK
BASE, DELTA, WITH_OLD = PortRequirement(B), PortRequirement(D), PortRequirement(D, needs_old_base=True)

BATCH = VariantNode("batch", (BASE,), (B,))
LINEAR = (BATCH, VariantNode("incremental", (DELTA,), (D,)))
COUNTING = (BATCH, VariantNode("incremental", (DELTA,), (W,)))
WITH_STATE = (BATCH, VariantNode("incremental", (WITH_OLD,), (D,)))
SPLIT = (VariantNode("batch", (BASE,), (B, B)), VariantNode("incremental", (DELTA,), (D, D)))
JOIN = (
    VariantNode("batch", (BASE, BASE), (B,)),
    VariantNode("both", (WITH_OLD, WITH_OLD), (D,)),
    VariantNode("left", (DELTA, BASE), (D,)),
    VariantNode("right", (BASE, DELTA), (D,)),
)
UNION = (
    VariantNode("batch", (BASE, BASE), (B,)),
    VariantNode("both", (DELTA, DELTA), (D,)),
    VariantNode("left", (DELTA, NOTHING), (D,)),
    VariantNode("right", (NOTHING, DELTA), (D,)),
)


def price(task: str, variant: str, weight: float, market: int = 0) -> float:
    """Some price, the same whenever it is asked on a market; whole numbers, so that sums can be compared."""
    chance = crc32(f"{task} {variant}".encode(), market)
    return 1.0 + chance % 17 + weight * (1 + chance // 17 % 5)


def weight(block: BlockNode) -> int:
    source = block.source or ((),) * len(block.target)
    return sum(max(t) - max(s, default=0) for s, t in zip(source, block.target, strict=True) if t)


def costs(task: str, variant: str, reads: Sequence[BlockNode], market: int = 0) -> CostEstimate:
    cost = price(task, variant, sum(map(weight, reads)), market)
    return CostEstimate(cost, (DataSize(1, 1),) * (2 if task == "split" else 1))


@dataclass(frozen=True)
class Arrival:
    channel: str
    after: int
    whole: bool  # as a base


@dataclass(frozen=True)
class Case:
    graph: PlanningGraph
    arrivals: tuple[Arrival, ...]
    market: int = 0  # what steps cost


@st.composite
def graphs(draw: st.DrawFn) -> PlanningGraph:
    shape = draw(st.sampled_from(["one", "chain", "join", "union", "split", "shared"]))
    conversions = st.sampled_from([(APPLY,), (APPLY, DIFFERENCE), (APPLY, APPLY_WEAK, STRENGTHEN)])
    linear = st.sampled_from([LINEAR, COUNTING, WITH_STATE])
    tasks: tuple[TaskNode, ...]
    match shape:
        case "one":
            tasks = (TaskNode("t", ("a",), ("out",), draw(linear)),)
        case "chain":
            tasks = (TaskNode("t", ("a",), ("m",), draw(linear)), TaskNode("u", ("m",), ("out",), draw(linear)))
        case "join":
            tasks = (TaskNode("t", ("b",), ("m",), draw(linear)), TaskNode("u", ("a", "m"), ("out",), JOIN))
        case "union":
            tasks = (TaskNode("t", ("b",), ("m",), draw(linear)), TaskNode("u", ("a", "m"), ("out",), UNION))
        case "split":
            tasks = (TaskNode("split", ("a",), ("m", "n"), SPLIT), TaskNode("u", ("m", "n"), ("out",), UNION))
        case _:
            tasks = (
                TaskNode("t", ("a",), ("m",), draw(linear)),
                TaskNode("s", ("a",), ("n",), draw(linear)),
                TaskNode("u", ("m", "n"), ("out",), draw(st.sampled_from([JOIN, UNION]))),
            )
    names = list(dict.fromkeys(c for t in tasks for c in (*t.reads, *t.writes)))
    accepts = draw(st.sampled_from([frozenset([B]), frozenset([D]), frozenset([B, D])]))
    channels = tuple(
        ChannelNode(n, accepts=accepts if n == "out" else frozenset(), conversions=draw(conversions)) for n in names
    )
    bare = PlanningGraph(channels, tasks)
    return _bounded(draw, bare)


def _bounded(draw: st.DrawFn, graph: PlanningGraph) -> PlanningGraph:
    pathways = GraphIndex(graph).pathways
    times = st.sampled_from([0, 0, 3, 10])
    channels = []
    for channel in graph.channels:
        if channel.name == "out":
            staleness = {p: draw(times) for i, p in enumerate(pathways["out"]) if i == 0 or draw(st.booleans())}
            bounds = ChannelBounds(staleness, draw(st.sampled_from([None, None, 0, 5, 12])))
        else:
            middle = channel.name in ("m", "n") and draw(st.booleans())
            bounds = ChannelBounds({p: draw(times) for p in pathways[channel.name]} if middle else {})
        channels.append(ChannelNode(channel.name, bounds, channel.accepts, channel.conversions))
    return PlanningGraph(tuple(channels), graph.tasks)


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
    tasks: tuple[TaskNode, ...]
    match draw(st.sampled_from(["one", "chain", "join"])):
        case "one":
            tasks = (TaskNode("t", ("a",), ("out",), COUNTING),)
        case "chain":
            tasks = (TaskNode("t", ("a",), ("m",), COUNTING), TaskNode("u", ("m",), ("out",), WITH_STATE))
        case _:
            tasks = (TaskNode("t", ("b",), ("m",), COUNTING), TaskNode("u", ("a", "m"), ("out",), JOIN[:2]))
    names = list(dict.fromkeys(c for t in tasks for c in (*t.reads, *t.writes)))
    accepted = frozenset([B, D])
    channels = tuple(ChannelNode(n, accepts=accepted if n == "out" else frozenset(), conversions=every) for n in names)
    graph = _bounded(draw, PlanningGraph(channels, tasks))
    inputs = [c.name for c in graph.channels if c.name in ("a", "b")]
    arrivals = st.builds(Arrival, st.sampled_from(inputs), st.integers(1, 6), st.just(False))
    return Case(graph, tuple(draw(st.lists(arrivals, min_size=2, max_size=4))), draw(st.integers(0, 99)))


class History:
    """A stock to which things happen, beside everything that ever was."""

    def __init__(self, graph: PlanningGraph, stock: BlockInventory) -> None:
        self.graph, self.stock = graph, stock
        self.inputs = [c.name for c in graph.channels if c.name not in stock.index.writer]
        self.versions = {name: [i + 1] for i, name in enumerate(self.inputs)}
        self.now = 5
        self.everything: list[BlockNode] = []
        for name in self.inputs:
            first = ((self.versions[name][0],),)
            self._add(BlockNode(name, B, None, first, DataSize(1, 1)))
            self._add(BlockNode(name, D, ((),), first, DataSize(1, 1)))  # who takes only deltas starts from nothing

    @property
    def time(self) -> Timeline:
        return Timeline({k: tuple(v) for k, v in self.versions.items()}, self.now)

    @property
    def points(self) -> set[tuple[str, Provenance]]:
        """Where stale bases are of use."""
        layout = self.stock.index
        return {
            (c, unpack_vector(p, layout.pathways[c]))
            for c in layout.support_channels
            for p in self.stock.find_resume_points(c)
        }

    def arrive(self, arrival: Arrival) -> None:
        self.now += arrival.after
        before = self.versions[arrival.channel][-1]
        self.versions[arrival.channel].append(self.now)
        source = None if arrival.whole else ((before,),)
        self._add(BlockNode(arrival.channel, B if arrival.whole else D, source, ((self.now,),), DataSize(1, 1)))
        self.now += 1

    def run(self, plan: Plan) -> None:
        for step in plan.steps:
            for block in step.writes:
                self._add(block)
        if plan.delivers is not None:
            self.stock.deliver_block(plan.delivers)
        self.stock.trim_channels(self.stock.index.channels, PlanningClock(self.time, self.stock.index.inputs))

    def _add(self, block: BlockNode) -> None:
        self.everything.append(block)
        self.stock.add_block(block)
