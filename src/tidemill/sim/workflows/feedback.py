"""Feedback prioritisation (section 4.1): what users make of news shall be learnt at once, of all else within a day.

    log ─ split ┬→ news ──┐
                └→ other ─┴ union → feedback

Every half hour 20 GB of the log of searches arrive, after four weeks of it; 3% of them have to do with news.
"""

from __future__ import annotations

from tidemill.plan.graph import APPLY, NOTHING, Bounds, Channel, Graph, Shape, Take, Task, Variant
from tidemill.sim.rates import GIGABYTE, SCAN, Work, divided, mapped
from tidemill.sim.scenario import DAY, MINUTE, WEEK, Feed, Figure, Scenario

B, M = Shape.BASE, Shape.MONOTONE
BASE, NEW = Take(B), Take(M)
NEWS = 0.03

GRAPH = Graph(
    channels=(
        Channel("log", conversions=(APPLY,)),
        Channel("news", conversions=(APPLY,)),
        Channel("other", conversions=(APPLY,)),
        Channel("feedback", Bounds({("log", "news"): 0, ("log", "other"): DAY}), accepts=frozenset([B, M])),
    ),
    tasks=(
        Task("split", ("log",), ("news", "other"), (Variant("batch", (BASE,), (B, B)), Variant("new", (NEW,), (M, M)))),
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
    ("split", "batch"): divided(NEWS, 1 - NEWS),
    ("split", "new"): divided(NEWS, 1 - NEWS),
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
