"""Properties of operators that follow from their form."""

from __future__ import annotations

import pytest

from tidemill.algebra.properties import find_keys, find_lasting_keys, is_append_only
from tidemill.algebra.sql import scan_channel, translate_query

SOURCES = {
    "pages": scan_channel("pages", {"url": "string", "site": "string"}, append_only=True),
    "clicks": scan_channel("clicks", {"user": "bigint", "site": "string"}, append_only=True),
    "scores": scan_channel("scores", {"site": "string", "score": "bigint"}, ("site",)),
}


@pytest.mark.parametrize(
    ("query", "growing"),
    [
        ("SELECT p.url, s.score FROM pages p JOIN scores s ON p.site = s.site", {"pages"}),
        ("SELECT p.url, s.score FROM pages p LEFT JOIN scores s ON p.site = s.site", {"pages"}),
        ("SELECT url FROM pages WHERE site NOT IN (SELECT site FROM clicks WHERE site IS NOT NULL)", {"pages"}),
        ("SELECT p.url FROM pages p JOIN clicks c ON p.site = c.site", {"pages", "clicks"}),
        (
            "SELECT p.url, c.n FROM pages p JOIN (SELECT site, count(*) AS n FROM clicks GROUP BY site) c "
            "ON p.site = c.site",
            {"pages"},
        ),
        ("SELECT site, count(*) AS n FROM pages GROUP BY site", set()),
        ("SELECT site FROM pages UNION ALL SELECT site FROM scores", {"pages"}),
    ],
)
def test_a_channel_whose_changes_only_add_rows(query: str, growing: set[str]) -> None:
    root = translate_query(query, SOURCES).op
    names = {name for name in SOURCES if name in query}
    assert {name for name in names if is_append_only(root, name)} == growing


SITES = scan_channel("sites", {"site": "string", "owner": "string"}, ("site",))


@pytest.mark.parametrize(
    ("query", "keys", "lasting"),
    [
        ("SELECT site, owner FROM sites WHERE owner IS NOT NULL", {("site",)}, {("site",)}),
        ("SELECT s.score, o.site FROM scores s JOIN sites o ON s.site = o.site", {("site",)}, set()),
        ("SELECT s.site, o.owner FROM scores s JOIN sites o ON s.site = o.site", {("site",)}, {("site",)}),
        ("SELECT s.site AS a, o.site AS b FROM scores s JOIN sites o ON s.site = o.site", {("a",), ("b",)}, {("a",)}),
        ("SELECT s.site, p.url FROM scores s JOIN pages p ON s.site = p.site", set(), set()),
        (
            "SELECT o.owner, count(*) AS n FROM scores s JOIN sites o USING (site) GROUP BY o.owner",
            {("owner",)},
            {("owner",)},
        ),
    ],
)
def test_a_removed_row_has_the_keys_of_the_left_side_only(query: str, keys: set[str], lasting: set[str]) -> None:
    root = translate_query(query, {**SOURCES, "sites": SITES}).op
    assert set(find_keys(root)) == keys
    assert set(find_lasting_keys(root)) == lasting
