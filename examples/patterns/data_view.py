"""Data view: a live, filtered look at any channel of a running workflow, which knows nothing of it.

A tap remembers how far it has read. It is no part of the workflow: nothing is redeployed, and nothing waits for it.
"""

from typing import Any

import tidemill as tm
from tidemill.runtime.inspect.change_feed import ChangeFeed

wf = tm.Workflow("data_view")

wf.input("events", "id bigint, level string, text string")


@wf.task
def parsed(events: tm.New) -> tm.Delta:
    return events.selectExpr("id", "upper(level) AS level", "text")


def new_errors(tap: ChangeFeed) -> list[Any]:
    """What to look at again and again: `tap = Tidemill.open().tap("parsed")`."""
    return tap.read_new().where("level = 'ERROR'").collect()
