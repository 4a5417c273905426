"""Tables that are refreshed together: one bound flow, so one job of the dispatcher, one run and one commit for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum

from tidemill.model.flow import BoundFlow
from tidemill.model.workflow import sort_tasks

Groups = Mapping[str, Sequence[BoundFlow]]
"""Bound flows by the word that puts them together."""


def merge_bindings(name: str, parts: Sequence[BoundFlow]) -> BoundFlow:
    """One flow of all the parts. Whatever makes one of them due makes all of them due, and they count for their sum."""
    tasks = sort_tasks(task for part in parts for task in part.tasks)
    triggers = tuple(dict.fromkeys(trigger for part in parts for trigger in part.triggers))
    return BoundFlow(name, tasks, parts[0].location, triggers, fsum(part.priority for part in parts))


def find_unrelated_groups(groups: Groups) -> Iterator[str]:
    """What is wrong with groups whose tables no channel feeds in common: they would only wait for each other."""
    for name, parts in groups.items():
        if not frozenset.intersection(*(part.read_channels for part in parts)):
            tables = ", ".join(part.name for part in parts)
            yield (
                f"{parts[0].location}: tables of together={name!r} read no channel in common ({tables}); "
                "put those together that the same channel feeds"
            )
