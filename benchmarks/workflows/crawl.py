"""Crawl selection (section 4.2): which pages to fetch next, from what was fetched so far.

             ┌ log → successful ─────────────┬─ top ──────┐
    fetched ─┼ shingle → shingles ───────────┼─ adaptive ─┼ union → queue
             └ extract → links ─ count → indegrees ┴─ periodic ─┘

`top` and `periodic` read what was fetched, `adaptive` the shingles, and all three the indegrees. None of them can be
done incrementally. Every half hour 25 GB of fetched pages arrive, after four weeks of them.
"""

from __future__ import annotations

from benchmarks.workflows.rates import GIGABYTE, SCAN, SHUFFLE, Work, grouped, mapped
from benchmarks.workflows.scenario import DAY, HOUR, MINUTE, WEEK, Feed, Figure, Scenario
from tidemill.planner.graph import (
    APPLY,
    APPLY_WEAK,
    DIFFERENCE,
    NOTHING,
    STRENGTHEN,
    Bounds,
    Channel,
    Graph,
    Shape,
    Take,
    Task,
    Variant,
)

B, D, M, W = Shape.BASE, Shape.STRONG, Shape.MONOTONE, Shape.WEAK
BASE, DELTA, NEW = Take(B), Take(D), Take(M)
SELECTIONS = ("top", "periodic", "adaptive")


def _selection(name: str, fetched: str) -> Task:
    return Task(name, (fetched, "indegrees"), (name,), (Variant("batch", (BASE, BASE), (B,)),))


def _only(name: str) -> Variant:
    return Variant(name, tuple(DELTA if s == name else NOTHING for s in SELECTIONS), (D,))


GRAPH = Graph(
    channels=(
        Channel("fetched", conversions=(APPLY,)),
        Channel("successful", Bounds({("fetched",): 0}), conversions=(APPLY,)),
        Channel("shingles", Bounds({("fetched",): 0}), conversions=(APPLY,)),
        Channel("links", conversions=(APPLY_WEAK, STRENGTHEN)),
        Channel("indegrees", conversions=(APPLY_WEAK,)),
        *(Channel(name, conversions=(DIFFERENCE,)) for name in SELECTIONS),
        Channel(
            "queue",
            Bounds(
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
        Task("log", ("fetched",), ("successful",), (Variant("batch", (BASE,), (B,)), Variant("new", (NEW,), (M,)))),
        Task("shingle", ("fetched",), ("shingles",), (Variant("batch", (BASE,), (B,)), Variant("new", (NEW,), (M,)))),
        Task("extract", ("fetched",), ("links",), (Variant("batch", (BASE,), (B,)), Variant("new", (NEW,), (W,)))),
        Task("count", ("links",), ("indegrees",), (Variant("batch", (BASE,), (B,)), Variant("new", (DELTA,), (W,)))),
        _selection("top", "successful"),
        _selection("periodic", "successful"),
        _selection("adaptive", "shingles"),
        Task(
            "union",
            SELECTIONS,
            ("queue",),
            (
                Variant("batch", (BASE, BASE, BASE), (B,)),
                Variant("all", (DELTA, DELTA, DELTA), (D,)),
                *(_only(name) for name in SELECTIONS),
            ),
        ),
    ),
)

_SELECT = Work((SHUFFLE, SHUFFLE), ((0.01, 0.0),))

WORK = {
    ("log", "batch"): mapped(0.01),
    ("log", "new"): mapped(0.01),
    ("shingle", "batch"): mapped(0.05),
    ("shingle", "new"): mapped(0.05),
    ("extract", "batch"): mapped(0.1),
    ("extract", "new"): mapped(0.1),
    ("count", "batch"): grouped(0.1),
    ("count", "new"): grouped(0.1),
    **{(name, "batch"): _SELECT for name in SELECTIONS},
    ("union", "batch"): Work((SCAN,) * 3, ((1.0,) * 3,)),
    ("union", "all"): Work((SCAN,) * 3, ((1.0,) * 3,)),
    **{("union", name): mapped(1.0) for name in SELECTIONS},
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
