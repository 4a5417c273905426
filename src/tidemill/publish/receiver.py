"""Who takes notices, as the notifier sees them; and the log."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from tidemill.model.notice import Notice, NoticeKind


class Receiver(Protocol):
    """Takes notices, or raises."""

    @property
    def name(self) -> str: ...
    def wants(self, kind: NoticeKind) -> bool: ...
    def take(self, notice: Notice) -> None: ...


@dataclass(frozen=True, slots=True)
class Log:
    """The server's own log."""

    name: str = "log"

    def wants(self, kind: NoticeKind) -> bool:
        return True

    def take(self, notice: Notice) -> None:
        serious = notice.kind is NoticeKind.RUN_FAILED
        logging.getLogger("tidemill.notices").log(logging.ERROR if serious else logging.INFO, "%s", notice.text)
