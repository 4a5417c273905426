"""Search preprocessing: new pages are indexed immediately, with scores that may be some days old.

    pages ─ shingle → digests ──────────────────────────────┐
                                                            join → index
    clicks ─ distinct → pairs ─ count → users ─ log → scores ┘

A page's score is the logarithm of the number of users that click on its site. Scores are refreshed daily; pages that
are already indexed get newer scores once a week, when the inconsistency between pages and clicks reaches its bound.
"""

import tidemill as tm

wf = tm.Workflow("search")

wf.input("pages", "url string, body string", key="url")
wf.input("clicks", "user bigint, url string")

# A digest is the minimum hash of three consecutive words: pages that share most of their text probably share it.
wf.sql(
    "digests",
    """
    SELECT url, substring_index(url, '/', 1) AS site, array_min(transform(
               sequence(1, greatest(1, size(words) - 2)), n -> crc32(array_join(slice(words, n, 3), ' '))
           )) AS digest
    FROM (SELECT url, split(body, ' ') AS words FROM pages)
    """,
)

wf.sql("pairs", "SELECT DISTINCT user, substring_index(url, '/', 1) AS site FROM clicks")
wf.sql("users", "SELECT site, count(*) AS users FROM pairs GROUP BY site")
wf.sql("scores", "SELECT site, ln(1 + users) AS score FROM users", target_lag="1 day")

wf.sql(
    "index",
    "SELECT d.url, d.digest, s.score FROM digests d JOIN scores s ON d.site = s.site",
    target_lag={"pages": "0s"},
    consistency="7 days",
)
