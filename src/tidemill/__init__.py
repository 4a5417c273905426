"""Tidemill keeps tables fresh on Spark: declare tables and freshness targets; it finds the cheapest refreshes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidemill.algebra.custom import custom
from tidemill.algebra.relation import Relation
from tidemill.api.flow import Flow
from tidemill.api.marks import All, Base, Delta, New, Old
from tidemill.api.options import Dependencies, Freshness, Limits, Retry, Schedule
from tidemill.api.stateful import state, window
from tidemill.api.triggers import after, all_of, cron, every, on
from tidemill.api.workflow import Workflow
from tidemill.errors import TidemillError
from tidemill.model.change import Append, Custom, Increment, Signed, Upsert
from tidemill.model.window import Between

if TYPE_CHECKING:
    from tidemill.client import Client

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


def __getattr__(name: str) -> Any:
    """Import the client when it is first used: its libraries take as long as all other imports together."""
    if name != "Client":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("tidemill.client").Client
