"""When a bound flow runs: triggers as users write them.

@wf.task(every="7 days")
@wf.task(triggers=[tm.on("articles", rows=1000, age="5 minutes"), tm.cron("0 3 * * *", "Europe/Berlin")])
@wf.task(triggers=[tm.all_of(tm.after("templates"), tm.on("articles"))])
"""

from __future__ import annotations

from tidemill.errors import WorkflowError
from tidemill.model.location import Location, caller
from tidemill.model.trigger import After, AllOf, Cron, Data, Every, Reached, Trigger
from tidemill.model.units import seconds


def every(duration: str | float) -> Trigger:
    """A trigger: the passing of so much time ("7 days")."""
    return interval(duration, caller())


def cron(expression: str, zone: str = "UTC") -> Trigger:
    """A trigger: moments of the calendar as cron writes them ("0 3 * * *"), in a time zone ("Europe/Berlin")."""
    return Cron(expression, zone)


def on(channel: str, *, rows: int | None = None, bytes: int | None = None, age: str | float | None = None) -> Trigger:
    """A trigger: new data on a channel; so many rows or bytes of it, or any that has waited so long."""
    return Data(channel, rows, bytes, None if age is None else _seconds(age, caller()))


def after(flow: str, reached: str = "completed") -> Trigger:
    """A trigger: a run of another bound flow was "launched", "completed" or "failed"."""
    where = caller()
    if reached not in list(Reached):
        raise WorkflowError([f"{where}: a run is {', '.join(Reached)}, not {reached!r}"])
    return After(flow, Reached(reached))


def all_of(*parts: Trigger) -> Trigger:
    """A trigger: all of these have fired."""
    return AllOf(parts)


def interval(duration: str | float, where: Location) -> Trigger:
    return Every(_seconds(duration, where))


def _seconds(duration: str | float, where: Location) -> float:
    try:
        return seconds(duration)
    except ValueError as error:
        raise WorkflowError([f"{where}: {error}"]) from error
