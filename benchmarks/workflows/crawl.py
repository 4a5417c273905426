"""Crawl selection (section 4.2): which pages to fetch next, based on the pages fetched so far.

             ┌ log → successful ─────────────┬─ top ──────┐
    fetched ─┼ shingle → shingles ───────────┼─ adaptive ─┼ union → queue
             └ extract → links ─ count → indegrees ┴─ periodic ─┘

`top` and `periodic` read the successful fetches, `adaptive` the shingles, and all three the indegrees. None of them has
an incremental variant. Every half hour 25 GB of fetched pages arrive, after four weeks of initial data.
"""

from __future__ import annotations

from benchmarks.workflows.rates import GIGABYTE, SCAN, SHUFFLE, Work, create_map_work, create_shuffle_work
from benchmarks.workflows.scenario import DAY, HOUR, MINUTE, WEEK, Feed, Figure, Scenario
from tidemill.planner.graph import (
    APPLY,
    APPLY_WEAK,
    DIFFERENCE,
    NOTHING,
    STRENGTHEN,
    BlockShape,
    ChannelBounds,
    ChannelNode,
    PlanningGraph,
    PortRequirement,
    TaskNode,
    VariantNode,
)

B, D, M, W = BlockShape.BASE, BlockShape.STRONG, BlockShape.MONOTONE, BlockShape.WEAK
BASE, DELTA, NEW = PortRequirement(B), PortRequirement(D), PortRequirement(M)
SELECTIONS = ("top", "periodic", "adaptive")


def _create_selection(name: str, fetched: str) -> TaskNode:
    return TaskNode(name, (fetched, "indegrees"), (name,), (VariantNode("batch", (BASE, BASE), (B,)),))


def _create_union_variant(name: str) -> VariantNode:
    return VariantNode(name, tuple(DELTA if s == name else NOTHING for s in SELECTIONS), (D,))


GRAPH = PlanningGraph(
    channels=(
        ChannelNode("fetched", conversions=(APPLY,)),
        ChannelNode("successful", ChannelBounds({("fetched",): 0}), conversions=(APPLY,)),
        ChannelNode("shingles", ChannelBounds({("fetched",): 0}), conversions=(APPLY,)),
        ChannelNode("links", conversions=(APPLY_WEAK, STRENGTHEN)),
        ChannelNode("indegrees", conversions=(APPLY_WEAK,)),
        *(ChannelNode(name, conversions=(DIFFERENCE,)) for name in SELECTIONS),
        ChannelNode(
            "queue",
            ChannelBounds(
                {
                    ("fetched", "successful", "top"): HOUR,
                    ("fetched", "successful", "periodic"): DAY,
                    ("fetched", "shingles", "adaptive"): 4 * HOUR,
                },
                inconsistency=WEEK,
            ),
            accepts=frozenset([B, D]),
        ),
    ),
    tasks=(
        TaskNode(
            "log",
            ("fetched",),
            ("successful",),
            (VariantNode("batch", (BASE,), (B,)), VariantNode("new", (NEW,), (M,))),
        ),
        TaskNode(
            "shingle",
            ("fetched",),
            ("shingles",),
            (VariantNode("batch", (BASE,), (B,)), VariantNode("new", (NEW,), (M,))),
        ),
        TaskNode(
            "extract", ("fetched",), ("links",), (VariantNode("batch", (BASE,), (B,)), VariantNode("new", (NEW,), (W,)))
        ),
        TaskNode(
            "count",
            ("links",),
            ("indegrees",),
            (VariantNode("batch", (BASE,), (B,)), VariantNode("new", (DELTA,), (W,))),
        ),
        _create_selection("top", "successful"),
        _create_selection("periodic", "successful"),
        _create_selection("adaptive", "shingles"),
        TaskNode(
            "union",
            SELECTIONS,
            ("queue",),
            (
                VariantNode("batch", (BASE, BASE, BASE), (B,)),
                VariantNode("all", (DELTA, DELTA, DELTA), (D,)),
                *(_create_union_variant(name) for name in SELECTIONS),
            ),
        ),
    ),
)

_SELECT = Work((SHUFFLE, SHUFFLE), ((0.01, 0.0),))

WORK = {
    ("log", "batch"): create_map_work(0.01),
    ("log", "new"): create_map_work(0.01),
    ("shingle", "batch"): create_map_work(0.05),
    ("shingle", "new"): create_map_work(0.05),
    ("extract", "batch"): create_map_work(0.1),
    ("extract", "new"): create_map_work(0.1),
    ("count", "batch"): create_shuffle_work(0.1),
    ("count", "new"): create_shuffle_work(0.1),
    **{(name, "batch"): _SELECT for name in SELECTIONS},
    ("union", "batch"): Work((SCAN,) * 3, ((1.0,) * 3,)),
    ("union", "all"): Work((SCAN,) * 3, ((1.0,) * 3,)),
    **{("union", name): create_map_work(1.0) for name in SELECTIONS},
}

FOUR_WEEKS = 4 * WEEK // (30 * MINUTE)

CRAWL = Scenario(
    "CrawlSelection",
    GRAPH,
    feeds={"fetched": Feed(25 * GIGABYTE, 25 * GIGABYTE * FOUR_WEEKS)},
    work=WORK,
    paper={
        "Async/Incr": Figure(81.4, 364_000, "5"),
        "Sync/Incr": Figure(542, 1.69e6, "5"),
        "Async/Batch": Figure(2_380, 81.2e6, "5"),
        "Sync/Batch": Figure(3_890, 114e6, "5"),
        "DP": Figure(4.94, 356, "6"),
        "GREEDY": Figure(96.2, 783, "6"),
        "RANDOM": Figure(396, 2_840, "6"),
    },
)
