"""Tidemill keeps tables fresh on Spark: declare tables and freshness targets; it finds the cheapest refreshes."""

from typing import TYPE_CHECKING

from tidemill.late_imports import import_late

if TYPE_CHECKING:
    from tidemill.algebra.custom import custom
    from tidemill.algebra.relation import Relation
    from tidemill.api.flow import Flow
    from tidemill.api.marks import All, Base, Delta, New, Old
    from tidemill.api.options import Dependencies, Freshness, Limits, Retry, Schedule
    from tidemill.api.stateful import state, window
    from tidemill.api.triggers import after, all_of, cron, every, on
    from tidemill.api.workflow import Workflow
    from tidemill.client import Client
    from tidemill.errors import TidemillError
    from tidemill.model.change import Append, Custom, Increment, Signed, Upsert
    from tidemill.model.window import Between

__version__ = "0.1.0"

__all__ = [
    "All",
    "Append",
    "Base",
    "Between",
    "Client",
    "Custom",
    "Delta",
    "Dependencies",
    "Flow",
    "Freshness",
    "Increment",
    "Limits",
    "New",
    "Old",
    "Relation",
    "Retry",
    "Schedule",
    "Signed",
    "TidemillError",
    "Upsert",
    "Workflow",
    "after",
    "all_of",
    "cron",
    "custom",
    "every",
    "on",
    "state",
    "window",
]

__getattr__ = import_late(
    __name__,
    {
        "All": "tidemill.api.marks",
        "Append": "tidemill.model.change",
        "Base": "tidemill.api.marks",
        "Between": "tidemill.model.window",
        "Client": "tidemill.client",
        "Custom": "tidemill.model.change",
        "Delta": "tidemill.api.marks",
        "Dependencies": "tidemill.api.options",
        "Flow": "tidemill.api.flow",
        "Freshness": "tidemill.api.options",
        "Increment": "tidemill.model.change",
        "Limits": "tidemill.api.options",
        "New": "tidemill.api.marks",
        "Old": "tidemill.api.marks",
        "Relation": "tidemill.algebra.relation",
        "Retry": "tidemill.api.options",
        "Schedule": "tidemill.api.options",
        "Signed": "tidemill.model.change",
        "TidemillError": "tidemill.errors",
        "Upsert": "tidemill.model.change",
        "Workflow": "tidemill.api.workflow",
        "after": "tidemill.api.triggers",
        "all_of": "tidemill.api.triggers",
        "cron": "tidemill.api.triggers",
        "custom": "tidemill.algebra.custom",
        "every": "tidemill.api.triggers",
        "on": "tidemill.api.triggers",
        "state": "tidemill.api.stateful",
        "window": "tidemill.api.stateful",
    },
)
