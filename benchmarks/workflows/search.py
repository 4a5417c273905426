"""Search preprocessing (section 1.1): new pages are indexed immediately, with scores that may be some days old.

    pages ─ shingle → digests ──────────────────────────────┐
                                                            join → index
    clicks ─ distinct → pairs ─ count → users ─ log → scores ┘

Every half hour 20 GB of crawled pages and 2 GB of clicks arrive, after four weeks of initial data.
"""

from __future__ import annotations

from benchmarks.workflows.rates import GIGABYTE, SCAN, SHUFFLE, Work, create_map_work, create_shuffle_work
from benchmarks.workflows.scenario import DAY, MINUTE, WEEK, Feed, Figure, Scenario
from tidemill.planner.graph import (
    APPLY,
    APPLY_WEAK,
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
WITH_OLD = PortRequirement(D, needs_old_base=True)

GRAPH = PlanningGraph(
    channels=(
        ChannelNode("pages", conversions=(APPLY,)),
        ChannelNode("clicks", conversions=(APPLY,)),
        ChannelNode("digests", conversions=(APPLY,)),
        ChannelNode("pairs", conversions=(APPLY_WEAK, STRENGTHEN)),
        ChannelNode("users", conversions=(APPLY_WEAK, STRENGTHEN)),
        ChannelNode("scores", ChannelBounds({("clicks", "pairs", "users"): DAY}), conversions=(APPLY,)),
        ChannelNode("index", ChannelBounds({("pages", "digests"): 0}, inconsistency=WEEK), accepts=frozenset([B, D])),
    ),
    tasks=(
        TaskNode(
            "shingle", ("pages",), ("digests",), (VariantNode("batch", (BASE,), (B,)), VariantNode("new", (NEW,), (M,)))
        ),
        TaskNode(
            "distinct", ("clicks",), ("pairs",), (VariantNode("batch", (BASE,), (B,)), VariantNode("new", (NEW,), (W,)))
        ),
        TaskNode(
            "count", ("pairs",), ("users",), (VariantNode("batch", (BASE,), (B,)), VariantNode("new", (DELTA,), (W,)))
        ),
        TaskNode(
            "log", ("users",), ("scores",), (VariantNode("batch", (BASE,), (B,)), VariantNode("new", (DELTA,), (D,)))
        ),
        TaskNode(
            "join",
            ("digests", "scores"),
            ("index",),
            (
                VariantNode("batch", (BASE, BASE), (B,)),
                VariantNode("both", (WITH_OLD, WITH_OLD), (D,)),
                VariantNode("pages", (NEW, BASE), (M,)),  # monotone: rows joined with older scores stay
                VariantNode("scores", (BASE, DELTA), (D,)),
            ),
        ),
    ),
)

WORK = {
    ("shingle", "batch"): create_map_work(0.05),
    ("shingle", "new"): create_map_work(0.05),
    ("distinct", "batch"): create_shuffle_work(0.1),
    ("distinct", "new"): create_shuffle_work(0.2),
    ("count", "batch"): create_shuffle_work(0.02),
    ("count", "new"): create_shuffle_work(0.05),
    ("log", "batch"): create_map_work(1.0),
    ("log", "new"): create_map_work(1.0),
    ("join", "batch"): Work((SHUFFLE, SHUFFLE), ((1.1, 0.0),)),
    # Popular sites have most pages, and their scores change often: each day's clicks affect a third of the index.
    ("join", "both"): Work((SHUFFLE, SHUFFLE, SHUFFLE, SHUFFLE), ((0.3, 1.1, 0.0, 0.0),)),
    ("join", "pages"): Work((SCAN, SCAN), ((1.1, 0.0),)),  # scores are few: they are broadcast to all machines
    ("join", "scores"): Work((SHUFFLE, SHUFFLE), ((0.3, 0.0),)),
}

FOUR_WEEKS = 4 * WEEK // (30 * MINUTE)

SEARCH = Scenario(
    "SearchPreprocessing",
    GRAPH,
    feeds={
        "pages": Feed(20 * GIGABYTE, 20 * GIGABYTE * FOUR_WEEKS),
        "clicks": Feed(2 * GIGABYTE, 2 * GIGABYTE * FOUR_WEEKS, phase=10 * MINUTE),
    },
    work=WORK,
    paper={
        "Async/Incr": Figure(0.0606, 28_900, "5"),
        "Sync/Incr": Figure(27.9, 214_000, "5"),
        "Async/Batch": Figure(615, 8.26e6, "5"),
        "Sync/Batch": Figure(808, 43.8e6, "5"),
        "DP": Figure(0.0399, 187, "6"),
        "GREEDY": Figure(17.0, 255, "6"),
        "RANDOM": Figure(61.6, 932, "6"),
    },
)
