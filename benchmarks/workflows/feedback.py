"""Feedback prioritisation (section 4.1): feedback on news is available immediately, all other within a day.

    log ─ split ┬→ news ──┐
                └→ other ─┴ union → feedback

Every half hour 20 GB of the search log arrive, after four weeks of initial data; 3% of the searches concern news.
Either output of the split can be requested alone, so it is two tasks here.
"""

from __future__ import annotations

from benchmarks.workflows.rates import GIGABYTE, SCAN, Work, create_filter_work, create_map_work
from benchmarks.workflows.scenario import DAY, MINUTE, WEEK, Feed, Figure, Scenario
from tidemill.planner.graph import (
    APPLY,
    NOTHING,
    BlockShape,
    ChannelBounds,
    ChannelNode,
    PlanningGraph,
    PortRequirement,
    TaskNode,
    VariantNode,
)

B, M = BlockShape.BASE, BlockShape.MONOTONE
BASE, NEW = PortRequirement(B), PortRequirement(M)
SHARES = {"news": 0.03, "other": 0.97}


def _create_split(channel: str) -> TaskNode:
    return TaskNode(
        f"split {channel}",
        ("log",),
        (channel,),
        (VariantNode("batch", (BASE,), (B,)), VariantNode("new", (NEW,), (M,))),
    )


GRAPH = PlanningGraph(
    channels=(
        ChannelNode("log", conversions=(APPLY,)),
        ChannelNode("news", conversions=(APPLY,)),
        ChannelNode("other", conversions=(APPLY,)),
        ChannelNode("feedback", ChannelBounds({("log", "news"): 0, ("log", "other"): DAY}), accepts=frozenset([B, M])),
    ),
    tasks=(
        *map(_create_split, SHARES),
        TaskNode(
            "union",
            ("news", "other"),
            ("feedback",),
            (
                VariantNode("batch", (BASE, BASE), (B,)),
                VariantNode("both", (NEW, NEW), (M,)),
                VariantNode("news", (NEW, NOTHING), (M,)),
                VariantNode("other", (NOTHING, NEW), (M,)),
            ),
        ),
    ),
)

WORK = {
    **{
        (f"split {channel}", name): create_filter_work(share)
        for channel, share in SHARES.items()
        for name in ("batch", "new")
    },
    ("union", "batch"): Work((SCAN, SCAN), ((1.0, 1.0),)),
    ("union", "both"): Work((SCAN, SCAN), ((1.0, 1.0),)),
    ("union", "news"): create_map_work(1.0),
    ("union", "other"): create_map_work(1.0),
}

FOUR_WEEKS = 4 * WEEK // (30 * MINUTE)

FEEDBACK = Scenario(
    "FeedbackPrioritization",
    GRAPH,
    feeds={"log": Feed(20 * GIGABYTE, 20 * GIGABYTE * FOUR_WEEKS)},
    work=WORK,
    paper={
        "Async/Incr": Figure(0.0435, 6_930, "5"),
        "Sync/Incr": Figure(2.12, 7_130, "5"),
        "Async/Batch": Figure(139, 35.0e6, "5"),
        "Sync/Batch": Figure(193, 1.34e9, "5"),
        "DP": Figure(0.0485, 24.5, "6"),
        "GREEDY": Figure(5.10, 66.9, "6"),
        "RANDOM": Figure(19.1, 413, "6"),
    },
)
