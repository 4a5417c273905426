"""Relations: every method is equivalent to its SQL, and mistakes are reported with the user's line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from tests.algebra.evaluate import evaluate_operator

import tidemill as tm
from tidemill.algebra.describe import describe_operator
from tidemill.algebra.operators import GroupedMap, Operator, ScanMode
from tidemill.algebra.program import DeclaredQuery
from tidemill.algebra.reference import is_same_bag
from tidemill.algebra.sql import NotIncremental, scan_channel, translate_query
from tidemill.algebra.stages import list_channels, resolve_stage, stage_to_sql
from tidemill.errors import WorkflowError
from tidemill.model.change import Patch, Rows
from tidemill.model.task import Refresh, Sql

SOURCES = {
    "clicks": scan_channel(
        "clicks", {"user": "BIGINT", "site": "STRING", "n": "INT", "tags": "ARRAY<STRING>"}, append_only=True
    ),
    "pages": scan_channel("pages", {"url": "STRING", "site": "STRING", "size": "INT"}, keys=("url",)),
    "sites": scan_channel("sites", {"site": "STRING", "owner": "STRING"}, keys=("site",)),
    "maps": scan_channel("maps", {"id": "INT", "m": "MAP<STRING, INT>", "s": "STRUCT<x: INT>"}),
}
CLICKS: Rows = [
    {"user": 1, "site": "a", "n": 1, "tags": ["x", "y"]},
    {"user": 1, "site": "a", "n": 2, "tags": []},
    {"user": 2, "site": "a", "n": None, "tags": None},
    {"user": 2, "site": None, "n": 5, "tags": ["x"]},
    {"user": 2, "site": None, "n": 5, "tags": ["x"]},
    {"user": 3, "site": "b", "n": 0, "tags": ["z"]},
]
PAGES: Rows = [
    {"url": "a/1", "site": "a", "size": 10},
    {"url": "a/2", "site": "a", "size": 2},
    {"url": "c/1", "site": "c", "size": None},
    {"url": "?", "site": None, "size": 5},
]
SITES: Rows = [{"site": "a", "owner": "ann"}, {"site": "c", "owner": "cy"}]
MAPS: Rows = [{"id": 1, "m": {"a": 1}, "s": {"x": 7}}]
CONTENT = {
    ("clicks", ScanMode.NEW): CLICKS,
    ("pages", ScanMode.NEW): PAGES,
    ("sites", ScanMode.NEW): SITES,
    ("maps", ScanMode.NEW): MAPS,
}

wf = tm.Workflow("tests")
clicks, pages, sites, maps = (wf.relation(name) for name in SOURCES)


def build_operators(relation: tm.Relation) -> Operator:
    return resolve_stage(relation.stage, SOURCES).op


ONE_METHOD: dict[str, tuple[tm.Relation, str]] = {
    "select": (clicks.select("user", twice="n * 2"), "SELECT user, n * 2 AS twice FROM clicks"),
    "select all and more": (clicks.select("*", m="n + 1"), "SELECT *, n + 1 AS m FROM clicks"),
    "select all but": (clicks.select("* EXCEPT (tags, n)"), "SELECT user, site FROM clicks"),
    "select with AS": (clicks.select("n AS m"), "SELECT n AS m FROM clicks"),
    "select a field": (maps.select(x="s.x"), "SELECT s.x AS x FROM maps"),
    "select a lambda": (
        clicks.select(t="transform(tags, t -> concat(t, site))"),
        "SELECT transform(tags, t -> concat(t, site)) AS t FROM clicks",
    ),
    "where": (clicks.where("n > 1 AND clicks.site IS NULL"), "SELECT * FROM clicks WHERE n > 1 AND site IS NULL"),
    "distinct": (clicks.distinct(), "SELECT DISTINCT * FROM clicks"),
    "group": (
        clicks.group_by("site").agg(n="count(*)", users="count(DISTINCT user)", mean="avg(n)"),
        "SELECT site, count(*) AS n, count(DISTINCT user) AS users, avg(n) AS mean FROM clicks GROUP BY site",
    ),
    "group by an expression": (
        clicks.group_by("site", odd="n % 2").agg(most="max(user) + 1"),
        "SELECT site, n % 2 AS odd, max(user) + 1 AS most FROM clicks GROUP BY site, n % 2",
    ),
    "group of everything": (clicks.group_by().agg(n="sum(n)"), "SELECT sum(n) AS n FROM clicks"),
    "groups alone": (clicks.group_by("site").agg(), "SELECT site FROM clicks GROUP BY site"),
    "union": (
        clicks.select("site").union(pages.select("site")),
        "SELECT * FROM (SELECT site FROM clicks) clicks UNION ALL SELECT * FROM (SELECT site FROM pages) pages",
    ),
    "intersect": (clicks.intersect(clicks), "SELECT * FROM clicks AS left INTERSECT SELECT * FROM clicks AS right"),
    "except all": (
        clicks.except_(clicks.where("n = 5").alias("five"), all=True),
        "SELECT * FROM clicks EXCEPT ALL SELECT * FROM (SELECT * FROM clicks WHERE n = 5) AS five",
    ),
    "explode": (
        clicks.explode("tags", as_="tag"),
        "SELECT clicks.*, _made.tag FROM clicks LATERAL VIEW explode(tags) _made AS tag",
    ),
    "explode outer": (
        clicks.explode("tags", as_="tag", outer=True),
        "SELECT clicks.*, _made.tag FROM clicks LATERAL VIEW OUTER explode(tags) _made AS tag",
    ),
    "window": (
        clicks.window(rn="row_number() OVER (PARTITION BY site ORDER BY n, user)"),
        "SELECT *, row_number() OVER (PARTITION BY site ORDER BY n, user) AS rn FROM clicks",
    ),
    "window by": (
        clicks.window(by=["site"], rn="row_number() OVER (ORDER BY n, user)", all="count(*) OVER (PARTITION BY user)"),
        "SELECT *, row_number() OVER (PARTITION BY site ORDER BY n, user) AS rn, "
        "count(*) OVER (PARTITION BY user) AS all FROM clicks",
    ),
    "top": (
        pages.top(2, by=["size DESC", "coalesce(site, url)"], skip=1).select("url"),
        "SELECT url FROM (SELECT * FROM pages ORDER BY size DESC, coalesce(site, url) LIMIT 2 OFFSET 1) pages",
    ),
    "join on columns": (
        clicks.join(pages, on=["site"]),
        "SELECT c.site, c.user, c.n, c.tags, p.url, p.size FROM clicks c JOIN pages p ON c.site = p.site",
    ),
    "join on a condition": (
        clicks.join(sites.select("owner", domain="site"), on="clicks.site = sites.domain AND n > 0", how="left"),
        "SELECT * FROM clicks LEFT JOIN (SELECT owner, site AS domain FROM sites) sites ON site = domain AND n > 0",
    ),
    "join right": (
        clicks.join(sites, on="site", how="right"),
        "SELECT s.site, c.user, c.n, c.tags, s.owner FROM clicks c RIGHT JOIN sites s ON c.site = s.site",
    ),
    "join full": (
        clicks.join(sites, on="site", how="full"),
        "SELECT COALESCE(c.site, s.site) AS site, c.user, c.n, c.tags, s.owner "
        "FROM clicks c FULL JOIN sites s ON c.site = s.site",
    ),
    "join semi": (
        clicks.join(pages, on="site", how="semi"),
        "SELECT * FROM clicks LEFT SEMI JOIN pages ON clicks.site = pages.site",
    ),
    "join anti": (
        clicks.join(pages, on="clicks.site = pages.site AND pages.size > 5", how="anti"),
        "SELECT * FROM clicks LEFT ANTI JOIN pages ON clicks.site = pages.site AND size > 5",
    ),
    "self join": (
        sites.join(sites.select("site", other="owner"), on="site"),
        "SELECT a.site, a.owner, b.other FROM sites a "
        "JOIN (SELECT site, owner AS other FROM sites) b ON a.site = b.site",
    ),
}
NOT_IN_REFERENCE = {"select a field", "select a lambda"}  # expressions that it does not evaluate


@pytest.mark.parametrize("name", ONE_METHOD)
def test_a_method_is_equivalent_to_its_sql(name: str) -> None:
    relation, query = ONE_METHOD[name]
    actual, expected = build_operators(relation), translate_query(query, SOURCES).op
    assert actual.columns == expected.columns
    if name in NOT_IN_REFERENCE:
        assert describe_operator(actual) == describe_operator(expected)
    else:
        rows = evaluate_operator(actual, CONTENT)
        assert rows
        assert is_same_bag(rows, evaluate_operator(expected, CONTENT))


@pytest.mark.parametrize("name", ONE_METHOD)
def test_the_text_of_a_relation_is_a_query_of_the_same_columns(name: str) -> None:
    relation, _ = ONE_METHOD[name]
    actual = translate_query(stage_to_sql(relation.stage), SOURCES)
    assert actual.columns == build_operators(relation).columns


@pytest.mark.parametrize("name", ["where", "distinct", "group", "group by an expression", "explode outer", "window"])
def test_some_methods_build_the_same_operators_as_their_sql(name: str) -> None:
    relation, query = ONE_METHOD[name]
    assert describe_operator(build_operators(relation)) == describe_operator(translate_query(query, SOURCES).op)


def test_methods_can_be_chained() -> None:
    popular = clicks.where("n IS NOT NULL").group_by("site").agg(total="sum(n)").where("total > 1")
    query = "SELECT site, sum(n) AS total FROM clicks WHERE n IS NOT NULL GROUP BY site HAVING sum(n) > 1"
    assert is_same_bag(
        evaluate_operator(build_operators(popular), CONTENT),
        evaluate_operator(translate_query(query, SOURCES).op, CONTENT),
    )
    assert list_channels(popular.join(pages, on="site").stage) == ("clicks", "pages")


def test_split_loses_and_duplicates_nothing() -> None:
    many, few = clicks.split("n > 1 OR site = 'x}{'")
    rows = [evaluate_operator(build_operators(part), CONTENT) for part in (many, few)]
    assert [len(r) for r in rows] == [3, 3]
    assert is_same_bag(rows[0] + rows[1], CLICKS)


def test_a_function_is_applied_to_each_group() -> None:
    def spread(rows: Any) -> Any:
        return rows

    root = build_operators(clicks.where("n > 0").apply("SITE", spread, returns="low int, high double"))
    assert isinstance(root, GroupedMap)
    assert (root.keys, root.outputs, root.columns) == (("site",), ("low", "high"), ("site", "low", "high"))
    assert root.function is spread
    actual = resolve_stage(clicks.apply("site", spread, "low int").group_by("low").agg(n="count(*)").stage, SOURCES)
    assert actual.types == {"low": "INT", "n": "BIGINT"}


@dataclass
class Head:
    """A callable object that is not hashable, and whose code cannot be traced."""

    rows: object

    def __call__(self, frame: Any) -> Any:
        return frame.head(self.rows)


@pytest.mark.parametrize("build", [Head, lambda rows: partial(Head.__call__, Head(rows))])
def test_objects_with_different_state_are_different_functions(build: Callable[[object], Callable[..., Any]]) -> None:
    few, many = build(object()), build(object())
    relations = [clicks.apply("site", function, "low int") for function in (few, few, many)]
    assert len({relation.stage for relation in relations}) == 2
    first, same, other = map(build_operators, relations)
    assert hash(first) == hash(same)
    assert first == same
    assert first != other


def test_a_many_to_one_join_is_updated_by_patches() -> None:
    ranked = pages.join(sites, on="site")
    assert isinstance(DeclaredQuery("ranked", build_operators(ranked)).updates, Patch)


# -- declared tables ---------------------------------------------------------------------------------------------


def shop() -> tm.Workflow:
    workflow = tm.Workflow("shop")
    workflow.input("clicks", "user bigint, site string, tags map<string, int>")
    return workflow


def test_a_derived_table_has_the_variants_of_its_query() -> None:
    workflow, from_sql = shop(), shop()
    workflow.derive("hits", workflow.relation("clicks").group_by("site").agg(n="count(*)"), refresh="incremental")
    from_sql.sql("hits", "SELECT site, count(*) AS n FROM clicks GROUP BY site", refresh="incremental")
    (derived,), (queried,) = (list(w.build_spec().list_tasks()) for w in (workflow, from_sql))
    assert [v.name for v in derived.variants] == ["batch", "recompute", "incremental"]
    described_code = [v.code.describe_code() for v in queried.variants]
    assert [v.code.describe_code()["operators"] for v in derived.variants] == [
        code["operators"] for code in described_code
    ]
    assert derived.refresh == "incremental"
    code = derived.variant.code
    assert isinstance(code, Refresh)
    assert code.description == describe_operator(code.query.root)


def test_a_table_may_be_derived_from_a_derived_one_and_in_a_flow() -> None:
    workflow = shop()
    flow = tm.Flow("count")
    flow.derive("hits", flow.relation("raw").group_by("site").agg(n="count(*)"))
    flow.derive("best", flow.relation("hits").top(3, by="n DESC"))
    workflow.bind(flow, raw="clicks", hits="click_hits")
    tasks = {t.name: t for t in workflow.build_spec().list_tasks()}
    assert {r.port for r in tasks["best"].reads} == {"click_hits"}
    assert "scan clicks" in tasks["hits"].variant.code.description  # type: ignore[union-attr]


def test_a_relation_that_is_not_incremental_runs_as_its_sql() -> None:
    workflow = shop()
    workflow.derive("seen", workflow.relation("clicks").select("site", at="current_timestamp()"))
    (task,) = workflow.build_spec().list_tasks()
    assert isinstance(task.variant.code, Sql)
    assert task.batch_reason is not None
    assert "current_timestamp()" in task.batch_reason


def test_a_function_over_unknown_columns_is_rejected() -> None:
    workflow = shop()
    workflow.table("later")
    workflow.sql("later", "SELECT rand() AS r FROM clicks")
    workflow.derive("never", workflow.relation("later").apply("r", lambda rows: rows, "n int"))
    with pytest.raises(WorkflowError, match="this cannot: the columns of later are not known"):
        workflow.build_spec()


# -- mistakes ----------------------------------------------------------------------------------------------------

WRONG_COLUMNS: list[tuple[Callable[[], tm.Relation], str]] = [
    (lambda: clicks.select("usr"), "there is no column 'usr'; did you mean 'user'? clicks has user, site, n, tags"),
    (lambda: clicks.where("clicks.x > 1"), "there is no column 'x'"),
    (lambda: clicks.group_by("site").agg(n="sum(m)"), "there is no column 'm'"),
    (lambda: clicks.top(1, by="m"), "there is no column 'm'"),
    (lambda: clicks.window(r="rank() OVER (PARTITION BY k ORDER BY n)"), "there is no column 'k'"),
    (lambda: clicks.explode("tag", as_="t"), "there is no column 'tag'"),
    (lambda: clicks.apply("host", lambda rows: rows, "x int"), "there is no column 'host'"),
    (lambda: clicks.join(pages, on="user"), "there is no column 'user'; pages has"),
    (lambda: clicks.join(pages, on="clicks.site = pages.host"), "there is no column 'host'; pages has"),
    (lambda: clicks.join(pages, on="site = size", how="semi"), "write clicks.site or pages.site"),
    (lambda: clicks.join(pages, on="n < size"), "both sides have a column 'site'"),
    (lambda: clicks.explode("tags", as_="n"), "has a column 'n' already"),
    (lambda: clicks.select("*", n="1"), "has a column 'n' already"),
    (lambda: clicks.window(N="rank() OVER (ORDER BY n)"), "has a column 'N' already"),
    (lambda: clicks.union(pages), "different numbers of columns"),
    (lambda: pages.union(pages.select("site", "url", "size")), "in another order"),
    (lambda: maps.distinct(), "column 'm' of maps holds maps"),
    (lambda: maps.group_by("m").agg(), "holds maps"),
    (lambda: maps.apply("m", lambda rows: rows, "x int"), "holds maps"),
    (lambda: maps.join(maps, on="m", how="semi"), "holds maps"),
    (lambda: maps.join(maps.alias("b"), on="maps.m = b.m", how="semi"), "holds maps"),
    (lambda: maps.window(n="count(*) OVER (PARTITION BY m)"), "holds maps"),
    (lambda: maps.except_(maps), "holds maps"),
]


@pytest.mark.parametrize(("build", "problem"), WRONG_COLUMNS)
def test_wrong_columns_are_reported_with_the_users_line(build: Callable[[], tm.Relation], problem: str) -> None:
    line = inspect.getsourcelines(build)[1]
    with pytest.raises(WorkflowError) as error:
        build_operators(build())
    assert problem in error.value.problems[0]
    assert error.value.problems[0].startswith(f"{__file__}:{line}: ")


WRONG_CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: clicks.select(), "at least one column"),
    (lambda: clicks.select("a +"), "not an expression"),
    (lambda: clicks.select("(SELECT 1)"), "has a query in it"),
    (lambda: clicks.select("count(*)"), "aggregates many rows"),
    (lambda: clicks.where("rank() OVER (ORDER BY n) = 1"), "with window() first"),
    (lambda: clicks.group_by("n + 1"), "the name of a column"),
    (lambda: clicks.group_by("site").agg(n="n"), "has no aggregate"),
    (lambda: clicks.group_by("site").agg(site="count(*)"), "a key of the groups already"),
    (lambda: clicks.group_by().agg(), "needs an aggregate"),
    (lambda: clicks.join(pages, on="site", how="outer"), "how is one of inner, left"),
    (lambda: clicks.join(pages, on=[]), "needs columns"),
    (lambda: clicks.join(clicks, on="clicks.n < clicks.user"), "with alias()"),
    (lambda: clicks.window(), "needs a column"),
    (lambda: clicks.window(n="n + 1"), "has no OVER"),
    (lambda: clicks.top(3, by=[]), "needs an order"),
    (lambda: clicks.top(3, by="n, user"), "as a list"),
    (lambda: clicks.top(3, by="n +"), "not an order"),
    (lambda: clicks.apply([], lambda rows: rows, "n int"), "at least one column"),
    (lambda: clicks.apply("site", lambda rows: rows, "Site string"), "leave it out of returns"),
    (lambda: clicks.apply("site", lambda rows: rows, "n nothing"), "not a schema"),
    (lambda: wf.derive("x", clicks, refresh="often"), "expected refresh to be one of auto"),
]


@pytest.mark.parametrize(("call", "problem"), WRONG_CALLS)
def test_wrong_calls_are_rejected_at_once(call: Callable[[], object], problem: str) -> None:
    line = inspect.getsourcelines(call)[1]
    with pytest.raises(WorkflowError) as error:
        call()
    assert problem in error.value.problems[0]
    assert error.value.problems[0].startswith(f"{__file__}:{line}: ")


def test_a_channel_without_known_columns_is_not_incremental() -> None:
    with pytest.raises(NotIncremental, match="declare its schema"):
        resolve_stage(wf.relation("nowhere").where("x > 1").stage, SOURCES)
