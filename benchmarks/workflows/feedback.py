"""Feedback prioritisation (section 4.1): what users make of news shall be learnt at once, of all else within a day.

    log ─ split ┬→ news ──┐
                └→ other ─┴ union → feedback

Every half hour 20 GB of the log of searches arrive, after four weeks of it; 3% of them have to do with news. A split
can be asked for either alone, so it is two tasks here.
"""

from __future__ import annotations

from benchmarks.workflows.rates import GIGABYTE, SCAN, Work, mapped, picked
from benchmarks.workflows.scenario import DAY, MINUTE, WEEK, Feed, Figure, Scenario
from tidemill.planner.graph import APPLY, NOTHING, Bounds, Channel, Graph, Shape, Take, Task, Variant

B, M = Shape.BASE, Shape.MONOTONE
BASE, NEW = Take(B), Take(M)
SHARES = {"news": 0.03, "other": 0.97}


def _split(channel: str) -> Task:
    return Task(
        f"split {channel}", ("log",), (channel,), (Variant("batch", (BASE,), (B,)), Variant("new", (NEW,), (M,)))
    )


GRAPH = Graph(
    channels=(
        Channel("log", conversions=(APPLY,)),
        Channel("news", conversions=(APPLY,)),
        Channel("other", conversions=(APPLY,)),
        Channel("feedback", Bounds({("log", "news"): 0, ("log", "other"): DAY}), accepts=frozenset([B, M])),
    ),
    tasks=(
        *map(_split, SHARES),
        Task(
            "union",
            ("news", "other"),
            ("feedback",),
            (
                Variant("batch", (BASE, BASE), (B,)),
                Variant("both", (NEW, NEW), (M,)),
                Variant("news", (NEW, NOTHING), (M,)),
                Variant("other", (NOTHING, NEW), (M,)),
            ),
        ),
    ),
)

WORK = {
    **{(f"split {channel}", name): picked(share) for channel, share in SHARES.items() for name in ("batch", "new")},
    ("union", "batch"): Work((SCAN, SCAN), ((1.0, 1.0),)),
    ("union", "both"): Work((SCAN, SCAN), ((1.0, 1.0),)),
    ("union", "news"): mapped(1.0),
    ("union", "other"): mapped(1.0),
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
