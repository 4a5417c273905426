"""Feedback prioritisation: feedback on news is available immediately, all other feedback within a day.

    log ─ split ┬→ news ──┐
                └→ other ─┴ union → feedback

The log contains each search with the links that were shown and the link that was clicked. All of it is written to one
table; its two pathways allow different freshness targets.
"""

import tidemill as tm

wf = tm.Workflow("feedback")

wf.input("log", "query string, links array<string>, clicked string")

IS_NEWS = "exists(links, link -> link LIKE 'news%')"

wf.sql("news", f"SELECT query, links, clicked FROM log WHERE {IS_NEWS}")
wf.sql("other", f"SELECT query, links, clicked FROM log WHERE NOT {IS_NEWS}")

wf.table("feedback", target_lag={"news": "0s", "other": "1 day"}, accepts=["base", "monotone"])
wf.sql(
    "feedback",
    "SELECT query, links, clicked FROM news UNION ALL SELECT query, links, clicked FROM other",
)
