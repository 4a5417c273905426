"""Notices: what people want to be told without asking.

They are made from what happened, once for each turn of events: a flow whose runs fail one after another is told of
once, and again when it has recovered.
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
    """One thing to tell. `id` stays the same however often it has to be sent until somebody takes it."""

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
    """What an event is to be told as, if at all; `failing` if the last run of the same flow had failed.

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


RETRIES = 8
"""How often somebody who does not take a notice is tried; about an hour in all."""


def compute_pause(attempts: int) -> float:
    """Seconds to wait before the next try.

    >>> [compute_pause(n) for n in (1, 2, 8)]
    [10.0, 20.0, 1280.0]
    """
    return 10.0 * 2.0 ** (attempts - 1)
