"""Triggers of bound flows, as users write them.

@wf.task(every="7 days")
@wf.task(triggers=[tm.on("articles", rows=1000, age="5 minutes"), tm.cron("0 3 * * *", "Europe/Berlin")])
@wf.task(triggers=[tm.all_of(tm.after("templates"), tm.on("articles"))])
"""

from tidemill.api.marks import locate_value_error
from tidemill.errors import WorkflowError
from tidemill.model import trigger as model
from tidemill.model.location import SourceLocation, find_caller
from tidemill.model.trigger import RunMilestone, Trigger
from tidemill.model.units import parse_duration


def every(duration: str | float) -> Trigger:
    """Return a trigger that fires after each period ("7 days")."""
    return build_interval(duration, find_caller())


def cron(expression: str, zone: str = "UTC") -> Trigger:
    """Return a trigger that fires at the times of a cron expression ("0 3 * * *"), in a time zone ("Europe/Berlin")."""
    return model.CronTrigger(expression, zone)


def on(channel: str, *, rows: int | None = None, bytes: int | None = None, age: str | float | None = None) -> Trigger:
    """Return a trigger on new data of a channel: a number of rows or bytes, or any data that has waited this long."""
    return model.DataTrigger(channel, rows, bytes, None if age is None else _parse_seconds(age, find_caller()))


def after(flow: str, reached: str = "completed") -> Trigger:
    """Return a trigger that fires when a run of another bound flow was "launched", "completed" or "failed"."""
    where = find_caller()
    if reached not in list(RunMilestone):
        raise WorkflowError([f"{where}: expected one of {', '.join(RunMilestone)}, found {reached!r}"])
    return model.RunTrigger(flow, RunMilestone(reached))


def all_of(*parts: Trigger) -> Trigger:
    """Return a trigger that fires when all of these have fired."""
    return model.AllOfTrigger(parts)


def build_interval(duration: str | float, where: SourceLocation) -> Trigger:
    return model.IntervalTrigger(_parse_seconds(duration, where))


def _parse_seconds(duration: str | float, where: SourceLocation) -> float:
    with locate_value_error(where):
        return parse_duration(duration)
