"""Crawl selection: which pages to fetch next, based on the pages fetched so far.

             ┌ log → successful ─────────────┬─ top ──────┐
    fetched ─┼ shingle → shingles ───────────┼─ adaptive ─┼ union → queue
             └ extract → links ─ count → indegrees ┴─ periodic ─┘

`top` selects the pages with most incoming links that were never fetched, hourly; `periodic` selects pages that were
not fetched for long, pages with more incoming links sooner, daily; `adaptive` selects pages that change often, every
four hours. None is incremental: the fetch of a page that was selected before may have failed. Indegrees may be a week
old.
"""

import tidemill as tm

wf = tm.Workflow("crawl")

wf.input("fetched", "url string, at bigint, error int, body string")  # at: seconds

wf.sql("successful", "SELECT url, at FROM fetched WHERE error IS NULL", target_lag="0s")

wf.sql(
    "shingles",
    """
    SELECT url, at, array_min(transform(
               sequence(1, greatest(1, size(words) - 2)), n -> crc32(array_join(slice(words, n, 3), ' '))
           )) AS digest
    FROM (SELECT url, at, split(body, ' ') AS words FROM fetched WHERE error IS NULL)
    """,
    target_lag="0s",
)

# When a page is fetched again, its new links replace the old ones.
wf.sql(
    "links",
    """
    SELECT url, explode(filter(split(body, ' '), word -> word LIKE '%/%')) AS target
    FROM (SELECT url, max_by(body, at) AS body FROM fetched WHERE error IS NULL GROUP BY url)
    """,
)
wf.sql("indegrees", "SELECT target AS url, count(*) AS indegree FROM links GROUP BY target")

for selection in ("top", "periodic", "adaptive"):
    wf.table(selection, "url string")

wf.sql(
    "top",
    """
    SELECT i.url FROM indegrees i LEFT ANTI JOIN successful s ON i.url = s.url
    ORDER BY i.indegree DESC, i.url LIMIT 5
    """,
    writes=tm.Base,
)

wf.sql(
    "periodic",
    """
    SELECT s.url
    FROM (SELECT url, max(at) AS at FROM successful GROUP BY url) s
    JOIN indegrees i ON s.url = i.url
    CROSS JOIN (SELECT max(at) AS at FROM successful) latest
    WHERE (latest.at - s.at) * (1 + i.indegree) > 86400
    """,
    writes=tm.Base,
)

wf.sql(
    "adaptive",
    """
    SELECT d.url
    FROM (SELECT url, count(DISTINCT digest) - 1 AS changes, count(*) AS fetches FROM shingles GROUP BY url) d
    JOIN indegrees i ON d.url = i.url
    WHERE d.changes * i.indegree > d.fetches
    """,
    writes=tm.Base,
)

wf.sql(
    "queue",
    """
    SELECT url, 'top' AS why FROM top
    UNION ALL
    SELECT url, 'periodic' AS why FROM periodic
    UNION ALL
    SELECT url, 'adaptive' AS why FROM adaptive
    """,
    target_lag={"successful > top": "1 hour", "successful > periodic": "1 day", "shingles > adaptive": "4 hours"},
    consistency="7 days",
)
