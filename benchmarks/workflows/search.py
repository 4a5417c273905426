"""Search preprocessing (section 1.1): new pages shall be found at once, with scores that may be some days old.

    pages ─ shingle → digests ──────────────────────────────┐
                                                            join → index
    clicks ─ distinct → pairs ─ count → users ─ log → scores ┘

Every half hour 20 GB of crawled pages arrive and 2 GB of clicks, after four weeks of both.
"""

from __future__ import annotations

from benchmarks.workflows.rates import GIGABYTE, SCAN, SHUFFLE, Work, grouped, mapped
from benchmarks.workflows.scenario import DAY, MINUTE, WEEK, Feed, Figure, Scenario
from tidemill.planner.graph import APPLY, APPLY_WEAK, STRENGTHEN, Bounds, Channel, Graph, Shape, Take, Task, Variant

B, D, M, W = Shape.BASE, Shape.STRONG, Shape.MONOTONE, Shape.WEAK
BASE, DELTA, NEW = Take(B), Take(D), Take(M)
WITH_OLD = Take(D, old=True)

GRAPH = Graph(
    channels=(
        Channel("pages", conversions=(APPLY,)),
        Channel("clicks", conversions=(APPLY,)),
        Channel("digests", conversions=(APPLY,)),
        Channel("pairs", conversions=(APPLY_WEAK, STRENGTHEN)),
        Channel("users", conversions=(APPLY_WEAK, STRENGTHEN)),
        Channel("scores", Bounds({("clicks", "pairs", "users"): DAY}), conversions=(APPLY,)),
        Channel("index", Bounds({("pages", "digests"): 0}, inconsistency=WEEK), accepts=frozenset([B, D])),
    ),
    tasks=(
        Task("shingle", ("pages",), ("digests",), (Variant("batch", (BASE,), (B,)), Variant("new", (NEW,), (M,)))),
        Task("distinct", ("clicks",), ("pairs",), (Variant("batch", (BASE,), (B,)), Variant("new", (NEW,), (W,)))),
        Task("count", ("pairs",), ("users",), (Variant("batch", (BASE,), (B,)), Variant("new", (DELTA,), (W,)))),
        Task("log", ("users",), ("scores",), (Variant("batch", (BASE,), (B,)), Variant("new", (DELTA,), (D,)))),
        Task(
            "join",
            ("digests", "scores"),
            ("index",),
            (
                Variant("batch", (BASE, BASE), (B,)),
                Variant("both", (WITH_OLD, WITH_OLD), (D,)),
                Variant("pages", (NEW, BASE), (M,)),  # monotone: what was joined with older scores stays as it is
                Variant("scores", (BASE, DELTA), (D,)),
            ),
        ),
    ),
)

WORK = {
    ("shingle", "batch"): mapped(0.05),
    ("shingle", "new"): mapped(0.05),
    ("distinct", "batch"): grouped(0.1),
    ("distinct", "new"): grouped(0.2),
    ("count", "batch"): grouped(0.02),
    ("count", "new"): grouped(0.05),
    ("log", "batch"): mapped(1.0),
    ("log", "new"): mapped(1.0),
    ("join", "batch"): Work((SHUFFLE, SHUFFLE), ((1.1, 0.0),)),
    # Popular sites have most pages, and their scores move all the time: any day's clicks touch a third of the index.
    ("join", "both"): Work((SHUFFLE, SHUFFLE, SHUFFLE, SHUFFLE), ((0.3, 1.1, 0.0, 0.0),)),
    ("join", "pages"): Work((SCAN, SCAN), ((1.1, 0.0),)),  # scores are few: a copy goes to each machine
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
