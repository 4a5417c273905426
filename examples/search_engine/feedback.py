"""Feedback prioritisation: what users make of news shall be learnt at once, of all else within a day.

    log ─ split ┬→ news ──┐
                └→ other ─┴ union → feedback

The log has each search with the links that were shown and the one that was clicked. All of it ends up in one table;
that its rows come by two ways is what lets one of them be wanted sooner.
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
