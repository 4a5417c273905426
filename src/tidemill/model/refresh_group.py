"""Refresh groups: tables that form one bound flow, and so are refreshed by one dispatched job, run and commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum

from tidemill.model.flow import BoundFlow
from tidemill.model.workflow import sort_tasks

Groups = Mapping[str, Sequence[BoundFlow]]
"""Bound flows by the name of their refresh group."""


def merge_bindings(name: str, parts: Sequence[BoundFlow]) -> BoundFlow:
    """One flow of all the parts. Any part's trigger makes it due, and its priority is the sum of theirs."""
    tasks = sort_tasks(task for part in parts for task in part.tasks)
    triggers = tuple(dict.fromkeys(trigger for part in parts for trigger in part.triggers))
    return BoundFlow(name, tasks, parts[0].location, triggers, fsum(part.priority for part in parts))


def find_unrelated_groups(groups: Groups) -> Iterator[str]:
    """Problems of groups whose tables read no common channel: such tables would only wait for each other."""
    for name, parts in groups.items():
        if not frozenset.intersection(*(part.read_channels for part in parts)):
            tables = ", ".join(part.name for part in parts)
            yield (
                f"{parts[0].location}: tables of refresh_group={name!r} read no channel in common ({tables}); "
                "group only tables that read the same channel"
            )
