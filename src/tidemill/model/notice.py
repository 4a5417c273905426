"""Notices: messages about events that users want to receive.

A notice is created once per change of state: a flow whose runs fail repeatedly causes one notice, and another one when
it has recovered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class NoticeKind(StrEnum):
    RUN_FAILED = "run failed"
    RUN_RECOVERED = "run recovered"
    SCHEMA_CHANGED = "schema changed"


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
        return {
            "id": self.id,
            "kind": str(self.kind),
            "subject": self.subject,
            "text": self.text,
            "at": self.at,
            "detail": dict(self.detail),
        }


def build_notice(kind: str, subject: str, detail: Mapping[str, Any], at: float, *, failing: bool) -> Notice | None:
    """The notice for an event; None if it causes none. `failing`: the previous run of the same flow had failed.

    >>> build_notice("run.finished", "totals", {}, 5.0, failing=True).text
    'totals runs again'
    """
    match kind:
        case "run.failed" if not failing:
            return Notice(NoticeKind.RUN_FAILED, subject, f"{subject} failed: {detail.get('error')}", at, detail)
        case "run.finished" if failing:
            return Notice(NoticeKind.RUN_RECOVERED, subject, f"{subject} runs again", at, detail)
        case "channel.schema":
            text = f"{subject} has another schema: {detail.get('changed')}"
            return Notice(NoticeKind.SCHEMA_CHANGED, subject, text, at, detail)
        case _:
            return None


MAX_DELIVERY_ATTEMPTS = 8
"""Delivery attempts before a notice is given up; about 20 minutes in total."""


def compute_pause(attempts: int) -> float:
    """Seconds to wait before the next delivery attempt.

    >>> [compute_pause(n) for n in (1, 2, 8)]
    [10.0, 20.0, 1280.0]
    """
    return 10.0 * 2.0 ** (attempts - 1)
