"""Derived tables, refreshed on Spark while rows are added and deleted, compared with plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product
from typing import Any

import pandas as pd
import pytest
from tests.acceptance.conftest import Open, name_values

import tidemill as tm
from tidemill.algebra.reference import Row, is_same_bag
from tidemill.app.wiring import Tidemill
from tidemill.model.block import BlockKind
from tidemill.model.change import Rows

CLICKS = "user bigint, site string, n int"
PAGES = "url string, site string"


def spread(rows: pd.DataFrame) -> pd.DataFrame:
    """A user's function of one site's clicks: two rows for each site with more than one user."""
    users = rows["user"].nunique()
    ranges = [(kind, int(n), users) for kind, n in (("low", rows["n"].min()), ("high", rows["n"].max()))]
    return pd.DataFrame(ranges[: 2 if users > 1 else 1], columns=["kind", "n", "users"])


def workflow() -> tm.Workflow:
    wf = tm.Workflow("search")
    wf.input("clicks", CLICKS, updates=tm.Signed())
    wf.input("pages", PAGES, key="url")
    clicks, pages = wf.relation("clicks"), wf.relation("pages")
    scores = clicks.select("site", "user").distinct().group_by("site").agg(score="sqrt(count(*))")
    wf.derive("scores", scores, refresh="incremental_strict")
    wf.derive("ranked", pages.join(wf.relation("scores"), on="site", how="left"), refresh="incremental_strict")
    ranges = clicks.where("n > 0").apply("site", spread, returns="kind string, n int, users bigint")
    wf.derive("ranges", ranges, refresh="incremental_strict")
    highest = wf.relation("ranges").where("kind = 'high'").top(1, by=["n DESC", "site"]).select("site", "n")
    wf.derive("highest", highest, refresh="incremental_strict")
    wf.derive("stamped", pages.join(clicks, on="site").select("url", "n", ok="uuid() IS NOT NULL"))
    return wf


TABLES = ("scores", "ranked", "ranges", "highest", "stamped")


def insert(mill: Tidemill, channel: str, schema: str, *rows: tuple[Any, ...]) -> None:
    mill.insert(channel, name_values(schema, rows))


@pytest.mark.long
def test_derived_tables_stay_right_while_rows_are_added_and_deleted(open_mill: Open) -> None:
    mill = open_mill(workflow())
    insert(mill, "clicks", CLICKS, (1, "a", 3), (2, "a", 5), (2, "a", 5), (1, "b", 9), (4, None, 1))
    insert(mill, "pages", PAGES, ("a/1", "a"), ("a/2", "a"), ("b/1", "b"), ("c/1", "c"), ("?", None))
    check(mill, BlockKind.BASE)
    signed = f"{CLICKS}, _count bigint"
    insert(mill, "clicks", signed, (2, "a", 5, -1), (1, "b", 9, -1), (3, "c", 7, 1), (5, None, 2, 1))
    check(mill, BlockKind.DELTA)
    insert(mill, "clicks", signed, (2, "a", 5, -1), (4, None, 1, -1), (5, None, 2, -1), (6, "c", 8, 1))
    insert(mill, "pages", f"{PAGES}, _deleted boolean", ("a/1", "c", False), ("b/1", None, True), ("d/1", "d", False))
    check(mill, BlockKind.DELTA)


def check(mill: Tidemill, kind: BlockKind) -> None:
    """Refresh every table and compare it with a recomputation from its inputs."""
    for table in TABLES:
        mill.run(table)
    for table, expected in recompute(mill.rows("clicks"), mill.rows("pages")).items():
        assert expected, table
        assert is_same_bag(mill.rows(table), expected), (table, mill.rows(table), expected)
        newest = max(mill.catalog.blocks.list(table), key=lambda b: b.seq)
        assert newest.kind is (BlockKind.BASE if table == "stamped" else kind), table


def recompute(clicks: Rows, pages: Rows) -> dict[str, Rows]:
    users, numbers = defaultdict(set), defaultdict(list)
    for click in clicks:
        users[click["site"]].add(click["user"])
        numbers[click["site"]].append(click["n"])
    scores = {site: math.sqrt(len(site_users)) for site, site_users in users.items()}
    ranges = [
        {"site": site, "kind": name, "n": pick(ns), "users": len(users[site])}
        for site, ns in numbers.items()
        for name, pick in (("low", min), ("high", max))
        if name == "low" or len(users[site]) > 1
    ]
    highest = sorted((-r["n"], r["site"] or "", r["site"]) for r in ranges if r["kind"] == "high")[:1]
    score_by_site = {site: score for site, score in scores.items() if site is not None}
    return {
        "scores": [{"site": s, "score": v} for s, v in scores.items()],
        "ranked": [{"site": p["site"], "url": p["url"], "score": score_by_site.get(p["site"])} for p in pages],
        "ranges": ranges,
        "highest": [{"site": site, "n": -n} for n, _, site in highest],
        "stamped": [{"url": p["url"], "n": c["n"], "ok": True} for p, c in product(pages, clicks) if is_joined(p, c)],
    }


def is_joined(page: Row, click: Row) -> bool:
    return page["site"] is not None and page["site"] == click["site"]


def test_a_function_of_groups_has_the_same_groups_of_floats_in_every_mode(open_mill: Open) -> None:
    """NULL, NaN and zero are one group each, although pandas does not distinguish NULL and NaN."""
    wf = tm.Workflow("sizes")
    wf.input("events", "f double, v int", updates=tm.Signed())
    wf.derive("sizes", wf.relation("events").apply("f", count_rows, returns="n int"), refresh="incremental_strict")
    mill = open_mill(wf)
    insert(mill, "events", "f double, v int", (0.0, 1), (math.nan, 2), (None, 3), (1.5, 4))
    mill.run("sizes")
    signed = "f double, v int, _count bigint"
    insert(mill, "events", signed, (-0.0, 5, 1), (math.nan, 6, 1), (math.nan, 7, 1), (1.5, 4, -1))
    mill.run("sizes", variant="incremental")
    expected = ["0.0 2", "None 1", "nan 3"]
    assert sorted(f"{row['f']} {row['n']}" for row in mill.rows("sizes")) == expected
    mill.run("sizes", variant="batch")
    assert sorted(f"{row['f']} {row['n']}" for row in mill.rows("sizes")) == expected


def count_rows(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"n": [len(rows)]})


# -- a user-defined weak delta ------------------------------------------------------------------------------------


def pick_longest(first: Rows, second: Rows) -> Rows:
    return sorted(first + second, key=lambda r: (-len(r["text"]), r["text"]))[:1]


def expand_delta(base: Rows, delta: Rows) -> Rows:
    return [r | {"_count": n} for r, n in [*((b, -1) for b in base), *((r, 1) for r in pick_longest(base, delta))]]


def contract_delta(signed: Rows) -> Rows:
    return [{"id": r["id"], "text": r["text"]} for r in signed if r["_count"] > 0]


@pytest.mark.long
def test_a_weak_delta_is_defined_by_its_signed_rows(open_mill: Open) -> None:
    wf = tm.Workflow("notes")
    notes = tm.custom("id", expand=expand_delta, contract=contract_delta, chain=pick_longest)
    wf.input("notes", "id int, text string", updates=notes)
    wf.derive("lengths", wf.relation("notes").group_by(n="length(text)").agg(notes="count(*)"), refresh="incremental")
    mill = open_mill(wf)
    insert(mill, "notes", "id int, text string", (1, "a"), (2, "bb"))
    mill.run("lengths")
    insert(mill, "notes", "id int, text string", (1, "aaa"), (2, "b"))
    insert(mill, "notes", "id int, text string", (1, "aa"), (3, "cc"))
    mill.run("lengths")
    assert is_same_bag(mill.rows("notes"), [{"id": 1, "text": "aaa"}, {"id": 2, "text": "bb"}, {"id": 3, "text": "cc"}])
    assert is_same_bag(mill.rows("lengths"), [{"n": 3, "notes": 1}, {"n": 2, "notes": 2}])
