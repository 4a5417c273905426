"""Notices: messages about events that users want to receive; and alarms: conditions that last.

A notice is created once per change of state: a flow whose runs fail repeatedly causes one notice, and another one when
it has recovered, and so does a freshness target that is missed. The catalog stores the active alarms, so that the
beginning and the end of each are recorded once, by the server that observes them first, and not again after a restart.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from tidemill.model.units import format_size, format_span


class AlarmKind(StrEnum):
    """The subject is a bound flow, a channel, or the owner of a budget."""

    FLOW_FAILING = "flow failing"  # its last run failed
    TARGET_MISSED = "target missed"  # a freshness target
    STORAGE_EXCEEDED = "storage exceeded"  # the threshold of a budget


@dataclass(frozen=True, slots=True)
class AlarmReading:
    """The condition of one subject now."""

    is_active: bool | None  # None near the limit: an alarm neither begins nor ends, so that it does not alternate there
    detail: Mapping[str, Any] = field(default_factory=dict)


class NoticeKind(StrEnum):
    RUN_FAILED = "run failed"
    RUN_RECOVERED = "run recovered"
    SCHEMA_CHANGED = "schema changed"
    TARGET_MISSED = "target missed"
    TARGET_MET = "target met"
    STORAGE_EXCEEDED = "storage exceeded"


@dataclass(frozen=True, slots=True)
class Notice:
    """One message. `id` stays the same over all delivery attempts, so that a receiver can deduplicate."""

    kind: NoticeKind
    subject: str
    text: str
    at: float
    detail: Mapping[str, Any]
    id: int = 0
    attempts: int = 0

    def to_document(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "attempts"}


def build_notice(kind: str, subject: str, detail: Mapping[str, Any], at: float) -> Notice | None:
    """The notice for an event that changes a state; None if it causes none.

    >>> build_notice("run.finished", "totals", {}, 5.0).text
    'totals runs again'
    >>> miss = {"pathway": ["orders"], "staleness": 95.0, "target_lag": 60.0}
    >>> build_notice("target.missed", "totals", miss, 5.0).text
    'totals misses its freshness target: it is staler than 1 min by 35 s, on the pathway orders'
    """
    match kind:
        case "run.failed":
            return Notice(NoticeKind.RUN_FAILED, subject, f"{subject} failed: {detail.get('error')}", at, detail)
        case "run.finished":
            return Notice(NoticeKind.RUN_RECOVERED, subject, f"{subject} runs again", at, detail)
        case "channel.schema":
            text = f"{subject} has another schema: {detail.get('changed')}"
            return Notice(NoticeKind.SCHEMA_CHANGED, subject, text, at, detail)
        case "target.missed":
            text = f"{subject} misses its freshness target: {_describe_miss(detail)}"
            return Notice(NoticeKind.TARGET_MISSED, subject, text, at, detail)
        case "target.met":
            text = f"{subject} meets its freshness target again, after {format_span(at - detail['since'])}"
            return Notice(NoticeKind.TARGET_MET, subject, text, at, detail)
        case "storage.exceeded":
            text = f"{subject} use {_describe_storage(detail)}"
            return Notice(NoticeKind.STORAGE_EXCEEDED, subject, text, at, detail)
        case _:
            return None


def _describe_miss(detail: Mapping[str, Any]) -> str:
    if detail["pathway"] is None:
        return "it combines versions of its inputs that are too far apart"
    lag, excess = format_span(detail["target_lag"]), format_span(detail["staleness"] - detail["target_lag"])
    return f"it is staler than {lag} by {excess}, on the pathway {' > '.join(detail['pathway'])}"


def _describe_storage(detail: Mapping[str, Any]) -> str:
    used, threshold = format_size(detail["used_bytes"]), format_size(detail["threshold_bytes"])
    return f"{used}, more than {threshold} of their budget of {format_size(detail['budget_bytes'])}"


MAX_DELIVERY_ATTEMPTS = 8
"""Delivery attempts before a notice is given up; about 20 minutes in total."""


def compute_pause(attempts: int) -> float:
    """Seconds to wait before the next delivery attempt.

    >>> [compute_pause(n) for n in (1, 2, 8)]
    [10.0, 20.0, 1280.0]
    """
    return 10.0 * 2.0 ** (attempts - 1)
