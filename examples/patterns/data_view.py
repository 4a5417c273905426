"""Data view: a live, filtered view of any channel of a running workflow.

A change feed stores the offset up to which it has read. It is not part of the workflow: nothing is redeployed, and no
run waits for it.
"""

from typing import Any

import tidemill as tm
from tidemill.runtime.inspect.change_feed import ChangeFeed

wf = tm.Workflow("data_view")

wf.input("events", "id bigint, level string, text string")


@wf.task
def parsed(events: tm.New) -> tm.Delta:
    return events.selectExpr("id", "upper(level) AS level", "text")


def read_new_errors(feed: ChangeFeed) -> list[Any]:
    """The errors since the last call, with `feed = Tidemill.open().change_feed("parsed")`."""
    return feed.read_new().where("level = 'ERROR'").collect()
