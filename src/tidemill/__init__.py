"""Tidemill keeps tables fresh on Spark: declare tables and freshness targets; it finds the cheapest refreshes."""

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
