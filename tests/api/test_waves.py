"""Queries over events keep the events' lineage tags; queries that cannot are rejected."""

from __future__ import annotations

import pytest

from tidemill.api.waves import tag_query


def tag_rows(query: str) -> str:
    """The tagged query without the part that numbers its rows."""
    tagged = tag_query(query, "orders")
    return tagged.removeprefix("WITH _made AS (").partition("), _all AS")[0]


@pytest.mark.parametrize(
    ("query", "tagged"),
    [
        ("SELECT number FROM orders", "SELECT number, orders.wave AS _from FROM orders"),
        ("SELECT * FROM orders WHERE n > 1", "SELECT * EXCEPT (wave), orders.wave AS _from FROM orders WHERE n > 1"),
        (
            "SELECT o.*, s.place FROM orders o JOIN stock s USING (item)",
            "SELECT o.* EXCEPT (wave), s.place, o.wave AS _from FROM orders AS o JOIN stock AS s USING (item)",
        ),
        (
            "SELECT s.*, o.item FROM stock s JOIN orders AS o USING (item)",
            "SELECT s.*, o.item, o.wave AS _from FROM stock AS s JOIN orders AS o USING (item)",
        ),
        (
            "SELECT number, explode(items) AS item FROM orders",
            "SELECT number, EXPLODE(items) AS item, orders.wave AS _from FROM orders",
        ),
    ],
)
def test_the_lineage_tag_is_added_to_the_query(query: str, tagged: str) -> None:
    assert tag_rows(query) == tagged


@pytest.mark.parametrize(
    "query",
    [
        "SELECT item, count(*) FROM orders GROUP BY item",
        "SELECT sum(n) FROM orders",
        "SELECT DISTINCT item FROM orders",
        "SELECT item FROM orders LIMIT 1",
        "SELECT item FROM orders UNION ALL SELECT item FROM orders",
        "WITH o AS (SELECT * FROM orders) SELECT item FROM o",
    ],
)
def test_queries_that_combine_events_are_rejected(query: str) -> None:
    with pytest.raises(ValueError, match="a SELECT that computes each row from one event"):
        tag_query(query, "orders")


def test_a_query_that_selects_the_tag_is_rejected() -> None:
    with pytest.raises(ValueError, match="leave it out"):
        tag_query("SELECT item, wave FROM orders", "orders")


@pytest.mark.parametrize(
    "query",
    ["SELECT item FROM stock", "SELECT item FROM (SELECT * FROM orders)", "SELECT a.n FROM orders a JOIN orders b"],
)
def test_a_query_that_does_not_read_the_events_once_is_rejected(query: str) -> None:
    with pytest.raises(ValueError, match="reads 'orders' once"):
        tag_query(query, "orders")
