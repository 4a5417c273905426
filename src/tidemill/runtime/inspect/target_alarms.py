"""The condition of freshness targets, for alarms and for the page."""

from __future__ import annotations

from tidemill.model.notice import AlarmReading
from tidemill.planner.catalog_state import TargetStatus
from tidemill.ports.catalog import CatalogReader
from tidemill.runtime.inspect.status import read_target_statuses

TARGET_SLACK_SECONDS = 5.0
"""Seconds beyond a freshness target that are not reported, because starting a run takes time."""


def read_target_alarms(catalog: CatalogReader) -> dict[str, AlarmReading]:
    """The condition of each freshness target, by channel."""
    return {channel: read_target_alarm(status) for channel, status in read_target_statuses(catalog).items()}


def read_target_alarm(status: TargetStatus) -> AlarmReading:
    """The alarm begins when the slack is over, and ends when the target is met."""
    late = status.list_late_pathways()
    if not late and not status.is_inconsistent:
        return AlarmReading(False)
    is_missed = status.is_inconsistent or bool(status.list_late_pathways(TARGET_SLACK_SECONDS))
    return AlarmReading(is_missed or None, _describe_miss(status, late[0] if late else None))


def _describe_miss(status: TargetStatus, pathway: tuple[str, ...] | None) -> dict[str, object]:
    if pathway is None:
        return {"pathway": None, "inconsistency": status.inconsistency, "consistency": status.consistency}
    staleness = round(status.staleness[pathway], 3)
    return {"pathway": list(pathway), "staleness": staleness, "target_lag": status.bounds[pathway]}
