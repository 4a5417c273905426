"""Alarms: conditions that last, such as a missed freshness target.

The catalog stores the active ones, so that the beginning and the end of each are recorded once, by whichever server
observes them first, and not again after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class AlarmKind(StrEnum):
    """The subject is a bound flow, a channel, or the owner of a budget."""

    FLOW_FAILING = "flow failing"  # its last run failed
    TARGET_MISSED = "target missed"  # a freshness target
    STORAGE_EXCEEDED = "storage exceeded"  # the threshold of a budget


@dataclass(frozen=True, slots=True)
class AlarmReading:
    """The condition of one subject now.

    `is_active` is None near the limit: an alarm neither begins nor ends, so that it does not alternate there.
    """

    is_active: bool | None
    detail: Mapping[str, Any] = field(default_factory=dict)
