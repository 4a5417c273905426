"""The workflow of the documentation's screenshots: a search index that ranks pages by clicks."""

from __future__ import annotations

from pyspark.sql import functions as F

import tidemill as tm

wf = tm.Workflow("search")
wf.input("pages", "url string, site string, body string")
wf.input("clicks", "user bigint, site string")
wf.input("owners", "site string, owner string")
wf.table("digests", "url string, site string, digest string")
wf.table("unique_pages", "url string, site string")
wf.table("seen", "digest string")
wf.table("blocklist", "site string")


@wf.task(triggers=[tm.on("pages")])
def digests(pages: tm.New) -> tm.Delta:
    return pages.select("url", "site", F.sha2("body", 256).alias("digest"))


@wf.task(writes={"unique_pages": tm.Delta, "seen": tm.Delta}, triggers=[tm.after("digests")])
def dedupe(digests: tm.New, seen: tm.All) -> dict[str, tm.Delta]:
    """One page of each new digest, and the new digests."""
    first = digests.groupBy("digest").agg(F.min("url").alias("url"), F.min("site").alias("site"))
    fresh = first.join(seen, "digest", "left_anti").cache()
    return {"unique_pages": fresh.select("url", "site"), "seen": fresh.select("digest")}


wf.sql(
    "scores",
    "SELECT site, count(*) AS clicks, count(DISTINCT user) AS users FROM clicks GROUP BY site",
    triggers=[tm.on("clicks")],
)
wf.sql(
    "ranked",
    "SELECT p.url, p.site, s.users FROM unique_pages p JOIN scores s ON p.site = s.site",
    triggers=[tm.all_of(tm.after("scores"), tm.after("dedupe"))],
)
wf.sql(
    "owner_report",
    "SELECT o.owner, sum(s.clicks) AS clicks, count(*) AS sites FROM scores s JOIN owners o ON s.site = o.site "
    "GROUP BY o.owner",
    every="1 hour",
)


@wf.task(triggers=[tm.on("pages", rows=1500)])
def blocklist(ranked: tm.All) -> tm.Base:
    raise ConnectionError("blocklist.example.org did not answer within 30 s")
