"""The user API. Decorators only build declarations; nothing here runs anything.

import tidemill as tm

wf = tm.Workflow("news")
articles = wf.input("articles", "url string, site string, body string")

@wf.task
def digests(articles: tm.New) -> tm.Delta:
    return articles.selectExpr("url", "sha2(body, 256) AS digest")
"""

from tidemill.api.flow import Flow
from tidemill.api.marks import REFRESH, All, Base, Delta, New, Old
from tidemill.api.options import Dependencies, Freshness, Limits, Retry, Schedule
from tidemill.api.workflow import Workflow

__all__ = [
    "REFRESH",
    "All",
    "Base",
    "Delta",
    "Dependencies",
    "Flow",
    "Freshness",
    "Limits",
    "New",
    "Old",
    "Retry",
    "Schedule",
    "Workflow",
]
