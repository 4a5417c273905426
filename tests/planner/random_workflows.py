"""Small random workflows and their histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from benchmarks.workflows.inventory import LastingInventory, find_due_time
from hypothesis import strategies as st

from tidemill.model.provenance import Pathway, Provenance
from tidemill.model.time import Timeline
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
from tidemill.planner.vector import PlanningClock, Vector

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


def price(task: str, variant: str, weight: float, price_seed: int = 0) -> float:
    """A pseudo-random price that depends on its arguments only; whole numbers, so that sums can be compared."""
    chance = crc32(f"{task} {variant}".encode(), price_seed)
    return 1.0 + chance % 17 + weight * (1 + chance // 17 % 5)


def weight(block: BlockNode) -> int:
    source = block.source or ((),) * len(block.target)
    return sum(max(t) - max(s, default=0) for s, t in zip(source, block.target, strict=True) if t)


def costs(task: str, variant: str, reads: Sequence[BlockNode], price_seed: int = 0) -> CostEstimate:
    cost = price(task, variant, sum(map(weight, reads)), price_seed)
    return CostEstimate(cost, (DataSize(1, 1),) * (2 if task == "split" else 1))


@dataclass(frozen=True)
class Arrival:
    channel: str
    after: int
    whole: bool  # it arrives as a base


@dataclass(frozen=True)
class Case:
    graph: PlanningGraph
    arrivals: tuple[Arrival, ...]
    price_seed: int = 0  # of the costs of steps


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
    unbounded = PlanningGraph(channels, tasks)
    return _add_bounds(draw, unbounded)


def _add_bounds(draw: st.DrawFn, graph: PlanningGraph) -> PlanningGraph:
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
def cases(draw: st.DrawFn, max_arrivals: int = 5) -> Case:
    graph = draw(graphs())
    inputs = [c.name for c in graph.channels if c.name in ("a", "b")]
    arrivals = st.builds(Arrival, st.sampled_from(inputs), st.integers(1, 6), st.booleans())
    return Case(graph, tuple(draw(st.lists(arrivals, min_size=1, max_size=max_arrivals))))


@st.composite
def cases_with_starts(draw: st.DrawFn) -> Case:
    """Arriving deltas in workflows that need old bases, to strengthen deltas and to join."""
    conversions = (APPLY, APPLY_WEAK, STRENGTHEN)
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
    channels = tuple(
        ChannelNode(n, accepts=accepted if n == "out" else frozenset(), conversions=conversions) for n in names
    )
    graph = _add_bounds(draw, PlanningGraph(channels, tasks))
    inputs = [c.name for c in graph.channels if c.name in ("a", "b")]
    arrivals = st.builds(Arrival, st.sampled_from(inputs), st.integers(1, 6), st.just(False))
    return Case(graph, tuple(draw(st.lists(arrivals, min_size=2, max_size=4))), draw(st.integers(0, 99)))


def unpack_vector(vector: Vector, pathways: Sequence[Pathway]) -> Provenance:
    return Provenance.from_pathways(dict(zip(pathways, vector, strict=True)))


def is_too_stale(inventory: LastingInventory, output: str, timeline: Timeline) -> bool:
    """Whether a staleness bound of an output is violated."""
    due = find_due_time(inventory, output, timeline)
    return due is not None and due <= timeline.now


class History:
    """A block inventory with its arrivals and runs, and all blocks so far."""

    def __init__(self, graph: PlanningGraph, inventory: LastingInventory) -> None:
        self.graph, self.inventory = graph, inventory
        self.inputs = [c.name for c in graph.channels if c.name not in inventory.index.writer]
        self.versions = {name: [i + 1] for i, name in enumerate(self.inputs)}
        self.now = 5
        self.all_blocks: list[BlockNode] = []
        for name in self.inputs:
            first = ((self.versions[name][0],),)
            self._add(BlockNode(name, B, None, first, DataSize(1, 1)))
            self._add(
                BlockNode(name, D, ((),), first, DataSize(1, 1))
            )  # a reader of deltas only starts without content

    @property
    def time(self) -> Timeline:
        return Timeline({k: tuple(v) for k, v in self.versions.items()}, self.now)

    @property
    def points(self) -> set[tuple[str, Provenance]]:
        """The points at which stale bases are useful."""
        index = self.inventory.index
        return {
            (c, unpack_vector(p, index.pathways[c]))
            for c in index.support_channels
            for p in self.inventory.find_resume_points(c)
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
            self.inventory.deliver_block(plan.delivers)
        self.inventory.trim_channels(
            self.inventory.index.channels, PlanningClock(self.time, self.inventory.index.inputs)
        )

    def _add(self, block: BlockNode) -> None:
        self.all_blocks.append(block)
        self.inventory.add_block(block)
