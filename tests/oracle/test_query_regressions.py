"""Queries that once failed, or easily could: small cases with literal rows."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from tests.marks import long
from tests.oracle.queries.case import Scale
from tests.oracle.queries.histories import Input, Insert
from tests.oracle.queries.world import check

from tidemill.model.block import BlockKind
from tidemill.model.change import Append, Signed, Upsert


def test_a_group_is_removed_with_its_last_row(spark: SparkSession) -> None:
    queries = {"totals": "SELECT k, count(*) AS n, sum(v) AS total, max(v) AS most FROM t GROUP BY k"}
    inputs = [Input("t", "k int, v int", Signed())]
    history = [
        [
            Insert(
                "t", [{"k": 1, "v": 5, "_count": 2}, {"k": None, "v": 7, "_count": 1}, {"k": 2, "v": None, "_count": 1}]
            )
        ],
        [Insert("t", [{"k": 1, "v": 5, "_count": -1}, {"k": 2, "v": None, "_count": -1}])],
        [Insert("t", [{"k": None, "v": 7, "_count": -1}, {"k": 2, "v": 3, "_count": 1}])],
        [],
    ]
    assert check(spark, queries, inputs, history) == {"batch": 1, "incremental": 3}


def test_a_row_moves_between_the_partners_of_an_outer_join(spark: SparkSession) -> None:
    queries = {"pairs": "SELECT a.id, a.k, b.s FROM a FULL JOIN b ON a.k = b.k"}
    inputs = [Input("a", "id int, k int", Upsert(("id",))), Input("b", "k int, s string", Append())]
    history = [
        [Insert("a", [{"id": 1, "k": 1}, {"id": 2, "k": None}]), Insert("b", [{"k": 1, "s": "x"}, {"k": 2, "s": "y"}])],
        [Insert("a", [{"id": 1, "k": 2, "_deleted": False}, {"id": 2, "k": None, "_deleted": True}])],
        [Insert("b", [{"k": 2, "s": "late"}, {"k": 2, "s": "late"}])],
        [Insert("a", [{"id": 3, "k": 1}], BlockKind.BASE)],
    ]
    check(spark, queries, inputs, history)


def test_a_table_can_read_another_table(spark: SparkSession) -> None:
    queries = {
        "firsts": "SELECT DISTINCT k, s FROM t",
        "ranked": "SELECT k, s, row_number() OVER (PARTITION BY k ORDER BY s) AS place FROM firsts",
        "first": "SELECT s, r FROM (SELECT *, rank() OVER (PARTITION BY k ORDER BY s DESC) AS r FROM t) WHERE r < 2",
        "without": "SELECT k FROM t x WHERE NOT EXISTS (SELECT 1 FROM ranked y WHERE y.k = x.k AND y.place > 1)",
    }
    inputs = [Input("t", "k int, s string", Signed())]
    history = [
        [Insert("t", [{"k": 1, "s": "a"}, {"k": 1, "s": "a"}, {"k": 1, "s": None}, {"k": None, "s": "b"}])],
        [Insert("t", [{"k": 1, "s": None, "_count": -1}, {"k": 2, "s": "b", "_count": 1}])],
    ]
    check(spark, queries, inputs, history)


@pytest.mark.long
def test_a_sub_query_of_having_aggregates_like_the_groups(spark: SparkSession) -> None:
    queries = {
        "large": "SELECT k, sum(v) AS total FROM t GROUP BY k HAVING 3 * sum(v) > (SELECT sum(v) FROM t)",
        "many": "SELECT k, count(*) AS n FROM t GROUP BY k HAVING 2 * count(*) > (SELECT count(*) FROM t)",
        "own": "SELECT k, count(*) AS n FROM t GROUP BY k HAVING count(*) > (SELECT count(*) FROM u WHERE u.k = t.k)",
        "hidden": "SELECT k, max(v) AS most FROM t GROUP BY k HAVING max(v) IN (SELECT t.k FROM u AS t WHERE t.k > 1)",
    }
    inputs = [Input("t", "k int, v int", Signed()), Input("u", "k int", Signed())]
    history = [
        [
            Insert("t", [{"k": 1, "v": 5}, {"k": 1, "v": 2}, {"k": 2, "v": 2}, {"k": None, "v": 1}]),
            Insert("u", [{"k": 1}, {"k": 2}, {"k": 5}]),
        ],
        [Insert("t", [{"k": 2, "v": 9, "_count": 3}, {"k": 1, "v": 5, "_count": -1}])],
        [Insert("u", [{"k": 2, "_count": -1}, {"k": 9, "_count": 1}]), Insert("t", [{"k": 2, "v": 9, "_count": -3}])],
    ]
    assert check(spark, queries, inputs, history) == {"batch": 4, "incremental": 8}


@pytest.mark.long
def test_changed_rows_are_compared_with_a_scalar_sub_query(spark: SparkSession) -> None:
    queries = {"early": "SELECT k, n FROM (SELECT k, count(*) AS n FROM t GROUP BY k) WHERE k < (SELECT max(k) FROM u)"}
    inputs = [Input("t", "k int", Signed()), Input("u", "k int", Append())]
    history = [
        [Insert("t", [{"k": 1}, {"k": 2}, {"k": 3}]), Insert("u", [{"k": 2}])],
        [Insert("t", [{"k": 1, "_count": 1}, {"k": 2, "_count": -1}])],
        [Insert("u", [{"k": 9}])],
    ]
    assert check(spark, queries, inputs, history) == {"batch": 1, "incremental": 2}


@pytest.mark.parametrize("scale", [long(scale) for scale in Scale])
def test_two_joins_may_use_one_table_under_one_name(spark: SparkSession, scale: Scale) -> None:
    near = "SELECT a.id, a.k, a.j, b.s FROM t a {kind} u b ON a.k = b.k"
    queries = {
        name: f"SELECT c.id, c.s, b.s AS s2 FROM ({near.format(kind=kind)}) c {kind} u b ON c.j = b.k"
        for name, kind in (("both", "JOIN"), ("either", "LEFT JOIN"))
    }
    inputs = [Input("t", "id int, k int, j int", Upsert(("id",))), Input("u", "k int, s string", Upsert(("k",)))]
    history = [
        [
            Insert("t", [{"id": 1, "k": 1, "j": 2}, {"id": 2, "k": 2, "j": 1}]),
            Insert("u", [{"k": 1, "s": "a"}, {"k": 2, "s": "b"}]),
        ],
        [Insert("t", [{"id": 1, "k": 2, "j": 1}])],
        [Insert("u", [{"k": 1, "s": "c"}]), Insert("t", [{"id": 3, "k": 1, "j": 1}])],
    ]
    assert check(spark, queries, inputs, history, scale) == {"batch": 2, "incremental": 4}


@pytest.mark.long
def test_a_sub_query_with_null_safe_equality_counts_rows_of_an_upsert_channel(spark: SparkSession) -> None:
    query = "SELECT a.id, (SELECT count(*) FROM t b WHERE a.id <=> b.k) AS found FROM t a"
    inputs = [Input("t", "id int, k int", Upsert(("id",)))]
    history = [
        [Insert("t", [{"id": 1, "k": 1, "_deleted": False}, {"id": None, "k": None, "_deleted": False}])],
        [Insert("t", [{"id": 2, "k": 1, "_deleted": False}])],
    ]
    check(spark, {"q": query}, inputs, history)


@pytest.mark.long
def test_a_sub_query_compares_a_struct_field_with_an_outer_joined_column(spark: SparkSession) -> None:
    queries = {
        "ids": "SELECT id FROM u WHERE id <> (SELECT min(1) FROM t WHERE u.id <=> t.o.x) UNION ALL SELECT o.x FROM t",
        "fields": "SELECT o FROM t",
        "found": "SELECT t.n, ids.id, last_value(ids.id) OVER (ORDER BY t.n, ids.id) AS l "
        "FROM t LEFT JOIN ids ON t.n = ids.id WHERE EXISTS (SELECT 1 FROM fields f WHERE ids.id = f.o.x)",
    }
    inputs = [Input("t", "n int, o struct<x: int, y: string>", Upsert(("n",))), Input("u", "id int", Upsert(("id",)))]
    rows = [{"n": n, "o": {"x": x, "y": "a"}, "_deleted": False} for n, x in ((1, 1), (2, 1), (5, None))]
    history = [[Insert("t", rows[:1])], [Insert("t", rows[1:]), Insert("u", [{"id": 2, "_deleted": False}])]]
    check(spark, queries, inputs, history)


@pytest.mark.parametrize("same", [long("="), long("<=>")])
def test_join_partners_of_many_rows_are_added_and_deleted(spark: SparkSession, same: str) -> None:
    queries = {
        "named": f"SELECT v.id, v.k, coalesce(t.n, -1) AS n, t.k IS NULL AS alone FROM v LEFT JOIN t ON v.k {same} t.k",
        "marked": f"SELECT id, k, EXISTS (SELECT 1 FROM t WHERE v.k {same} t.k) AS known FROM v",
    }
    inputs = [Input("t", "k int, n int", Upsert(("k",))), Input("v", "id int, k int", Upsert(("id",)))]
    rows = [{"id": number, "k": key, "_deleted": False} for number, key in enumerate((None, 1, 1, None))]
    history = [
        [Insert("t", [{"k": 1, "n": 1, "_deleted": False}]), Insert("v", rows)],
        [Insert("t", [{"k": None, "n": 5, "_deleted": False}, {"k": 1, "n": None, "_deleted": True}])],
        [Insert("t", [{"k": None, "n": None, "_deleted": True}, {"k": 1, "n": 9, "_deleted": False}])],
    ]
    assert check(spark, queries, inputs, history) == {"batch": 2, "incremental": 4}


@pytest.mark.long
def test_a_derived_table_may_declare_an_unused_name(spark: SparkSession) -> None:
    """Spark fails with an internal error here, so it evaluates the query without the unused name."""
    idle = "(WITH idle AS (SELECT 1 AS one) SELECT k FROM t) a"
    query = f"SELECT a.k, b.v FROM {idle} JOIN (WITH read AS (SELECT k, v FROM t) SELECT * FROM read) b ON a.k = b.k"
    inputs = [Input("t", "k int, v int", Signed())]
    history = [[Insert("t", [{"k": 1, "v": 2}])], [Insert("t", [{"k": 3, "v": 4}])]]
    assert check(spark, {"q": query}, inputs, history) == {"batch": 1, "incremental": 1}


@pytest.mark.parametrize("scale", [Scale.SMALL, long(Scale.HUGE)])
def test_a_query_whose_empty_parts_spark_optimizes_wrongly_is_retried(spark: SparkSession, scale: Scale) -> None:
    """Spark rejects the plan that its own optimizer makes of them."""
    none = "SELECT s FROM u WHERE 1 = 2"
    queries = {
        "united": f"SELECT s, min(s) AS c FROM (SELECT u.s FROM u LEFT ANTI JOIN u v ON u.s = v.s UNION ALL {none}) "
        "GROUP BY GROUPING SETS ((s), ()) HAVING count(*) > 0",
        "limited": "WITH w AS (SELECT T.I AS i, T.K AS k, lag(T.I, 2, 7) OVER (PARTITION BY T.I ORDER BY t.i DESC, "
        "T.K DESC) AS c FROM T WHERE 1 = 2) SELECT w.k AS k, W.I AS i FROM w ORDER BY w.k DESC, W.I LIMIT 3",
    }
    inputs = [Input("u", "k string, s string"), Input("t", "k date, i int", Upsert(("k",)))]
    history = [[Insert("t", [{"k": None, "i": 1, "_deleted": None}])], [Insert("u", [{"k": "a", "s": "b"}])]]
    check(spark, queries, inputs, history, scale)


@pytest.mark.long
def test_sums_and_averages_of_large_decimals_are_exact(spark: SparkSession) -> None:
    shapes = [(5, 2), (14, 6), (27, 4), (27, 20), (28, 6), (32, 4), (33, 6), (34, 2), (38, 6), (38, 9)]
    calls = ", ".join(f"{f}(CAST(v AS DECIMAL({p}, {s}))) AS {f}_{p}_{s}" for p, s in shapes for f in ("sum", "avg"))
    queries = {
        "by_shape": f"SELECT k, {calls} FROM t GROUP BY k",
        "products": "SELECT k, sum(v * (1 - w)) AS net, avg(v * w) AS mean, sum(v * (1 - w) * (1 + w)) AS gross, "
        "sum(IF(v > 1, CAST(w AS DECIMAL(5, 2)), 0)) AS some, avg(coalesce(CAST(w AS DECIMAL(5, 2)), k)) AS any, "
        "sum(CAST(w AS DECIMAL(5, 2)) * -1) AS less, sum(CAST(w AS DECIMAL(5, 2)) * (10)) AS more, "
        "sum(CAST(w AS DECIMAL(5, 2)) * CAST(20 AS BIGINT)) AS most, "
        "sum(CAST(w AS DECIMAL(5, 2)) - (-(20))) AS off, sum(-CAST(w AS DECIMAL(5, 2)) + k) AS near, "
        "count(v > 1 OR w > 0.1) AS known, count(v + NULL) AS none, count_if(v > 1 OR w > 1) AS few FROM t GROUP BY k",
    }
    inputs = [Input("t", "k int, v decimal(15, 2), w decimal(15, 2)", Signed())]
    numbers = ("1", "2", "-3", "0.01", "999.99", "-0.05")
    rows = [{"k": n % 2, "v": Decimal(v), "w": Decimal("0.07") * n} for n, v in enumerate(numbers)]
    history = [
        [Insert("t", [r | {"_count": n % 3 + 1} for n, r in enumerate(rows)])],
        [Insert("t", [rows[0] | {"_count": 6}, rows[1] | {"_count": -2}, rows[4] | {"_count": -1}])],
        [Insert("t", [rows[0] | {"_count": -7}, rows[3] | {"v": None, "_count": 2}, rows[4] | {"_count": -1}])],
    ]
    assert check(spark, queries, inputs, history) == {"batch": 2, "incremental": 4}


@pytest.mark.parametrize("kind", ["double", long("float")])
@pytest.mark.parametrize("scale", [Scale.SMALL, long(Scale.LARGE), long(Scale.HUGE)])
def test_nan_and_negative_zero_are_compared_as_in_spark(spark: SparkSession, scale: Scale, kind: str) -> None:
    """A comparison pushed down to Parquet's statistics loses rows: there -0.0 is not 0.0, and NaN is not large."""
    queries = {
        "zeros": "SELECT f, v FROM t WHERE f = 0",
        "large": "SELECT f, count(*) AS n, sum(v) AS s FROM t WHERE f > 1 GROUP BY f",
        "nested": "SELECT o.f AS f, v FROM t WHERE o.f >= 0",
        "one_of": "SELECT f, v FROM t WHERE f IN (0, 2)",
    }
    nan = float("nan")

    def row(f: float, v: int) -> dict[str, object]:
        return {"f": f, "o": {"f": f}, "v": v}

    history = [
        [Insert("t", [row(-0.0, 1), row(1.0, 2)])],
        [Insert("t", [row(nan, 3)])],
        [Insert("t", [row(-0.0, 4), row(nan, 5), row(0.0, 6)])],
    ]
    check(spark, queries, [Input("t", f"f {kind}, o struct<f: {kind}>, v int")], history, scale)


EMPTY_GROUPS = {
    "only_empty": "SELECT count(*) AS n, sum(v) AS s FROM t GROUP BY GROUPING SETS (())",
    "always": "SELECT 7 AS seven FROM t HAVING true",
    "counted": "SELECT 7 AS seven FROM t HAVING count(*) < 2",
    "depending": "SELECT 7 AS seven FROM t HAVING (SELECT count(*) FROM u) > 1",
    "existing": "SELECT k FROM u WHERE EXISTS (SELECT 1 FROM t HAVING 1 < 2)",
}


def test_a_group_of_all_rows_exists_without_rows_exactly_where_spark_has_it(spark: SparkSession) -> None:
    inputs = [Input("t", "k int, v int", Signed()), Input("u", "k int", Signed())]
    history = [
        [Insert("u", [{"k": 1, "_count": 1}])],
        [
            Insert("t", [{"k": 1, "v": 5, "_count": 1}, {"k": 2, "v": 6, "_count": 1}]),
            Insert("u", [{"k": 2, "_count": 1}]),
        ],
        [Insert("t", [{"k": 1, "v": 5, "_count": -1}, {"k": 2, "v": 6, "_count": -1}])],
    ]
    check(spark, EMPTY_GROUPS, inputs, history)


PATCHED = {
    "pages": "SELECT u.id, u.k, v.n, v.n IS NULL AS missing FROM u LEFT JOIN v ON u.k = v.k",
    "missing_pages": "SELECT * FROM pages WHERE missing",
}

MORE_PATCHED = {
    "pages": PATCHED["pages"],
    "known_pages": "SELECT u.id, u.k, v.n FROM u JOIN v ON u.k = v.k",
    "large_pages": "SELECT id, n + 1 AS more FROM known_pages WHERE n > 1",
    "visits": "SELECT w.at, w.id, pages.n FROM w LEFT JOIN pages ON w.id = pages.id",
}


@pytest.mark.parametrize("queries", [PATCHED, long(MORE_PATCHED, id="more")], ids=["first", "more"])
def test_tables_that_read_a_patched_table_by_its_key_see_every_patched_row(
    spark: SparkSession, queries: dict[str, str]
) -> None:
    """A patch changes all rows with a partner and names none of them."""
    inputs = [
        Input("u", "id int, k int", Upsert(("id",))),
        Input("v", "k int, n int", Upsert(("k",))),
        Input("w", "at int, id int", Upsert(("at",))),
    ]
    pages = [{"id": id, "k": k, "_deleted": False} for id, k in ((1, 5), (2, 5), (3, 6))]
    visits = [{"at": at, "id": 1 + at % 3, "_deleted": False} for at in range(4)]
    history = [
        [Insert("u", pages), Insert("v", [{"k": 5, "n": 1, "_deleted": False}]), Insert("w", visits)],
        [Insert("v", [{"k": 5, "n": None, "_deleted": True}])],
        [Insert("v", [{"k": 5, "n": 2, "_deleted": False}]), Insert("u", [{"id": 1, "k": 6, "_deleted": False}])],
        [Insert("v", [{"k": 5, "n": 3, "_deleted": False}]), Insert("u", [{"id": 2, "k": None, "_deleted": True}])],
    ]
    assert check(spark, queries, inputs, history)["incremental"] == 3 * len(queries)


RIGHT_KEYS = {
    "rows": "SELECT v.k, u.i FROM u JOIN v ON u.k = v.k",
    "looked_up": "SELECT w.k, w.n, r.i FROM w JOIN (SELECT v.k, u.i FROM u JOIN v ON u.k = v.k) r ON w.k = r.k",
}

MORE_RIGHT_KEYS = {
    "own_rows": "SELECT b.k, a.i FROM u a JOIN u b ON a.k <=> b.k",
    "grouped": "SELECT k, sum(i) AS s FROM (SELECT v.k, u.i FROM u JOIN v ON u.k = v.k) GROUP BY k",
    "patching": "SELECT r.k, w.n FROM (SELECT v.k, v.n FROM u JOIN v ON u.k = v.k) r LEFT JOIN w ON r.n = w.k",
    "ranked": "SELECT v.k, sum(i) OVER (PARTITION BY v.k ORDER BY i) AS s FROM u JOIN v ON u.k = v.k",
    "joined": "SELECT r.k, r.i, w.n FROM (SELECT v.k, u.i FROM u JOIN v ON u.k = v.k) r JOIN w ON r.k = w.k",
    "members": "SELECT * FROM w WHERE k IN (SELECT v.k FROM u JOIN v ON u.k = v.k)",
    "counted": "SELECT v.k, v.n, c.n AS total FROM (SELECT count(*) AS n FROM u) c JOIN v ON c.n = v.k",
    "moved": "SELECT v.k, u.i FROM u JOIN v ON u.i = v.k WHERE u.k = 1",
    "patched": "SELECT w.k, w.n, r.i FROM w JOIN (SELECT v.k, u.i FROM u JOIN v ON u.k = v.k) r ON w.n = r.k",
    "several": "SELECT w.k, w.n, r.i FROM w JOIN (SELECT v.k, u.i FROM v JOIN u ON v.k = u.i) r ON w.n = r.k",
}


@pytest.mark.parametrize("queries", [RIGHT_KEYS, long(MORE_RIGHT_KEYS, id="more")], ids=["first", "more"])
def test_rows_that_only_the_key_of_the_right_side_identifies_are_removed(
    spark: SparkSession, queries: dict[str, str]
) -> None:
    """The row of a removed left key has no partner any more, so its right key is not known."""
    inputs = [
        Input("u", "k int, i int", Upsert(("k",))),
        *(Input(name, "k int, n int", Upsert(("k",))) for name in ("v", "w")),
    ]

    def rows(*pairs: tuple[int, int | None], column: str = "n") -> list[dict[str, object]]:
        return [{"k": k, column: n, "_deleted": n is None} for k, n in pairs]

    history = [
        [
            Insert("u", rows((1, 2), (2, 5), (3, 1), column="i")),
            *(Insert(name, rows((1, 2), (2, 2), (3, 1))) for name in ("v", "w")),
        ],
        [Insert("u", rows((3, None), (1, 3), column="i"))],
        [Insert("v", rows((2, None), (4, 4))), Insert("u", rows((4, 4), column="i"))],
        [Insert("u", rows((1, None), column="i")), Insert("w", rows((4, 1), (1, None)))],
    ]
    check(spark, queries, inputs, history)
