"""Delivery of notices: each to every receiver, repeated until it is accepted or has failed too often."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tidemill.model.notice import Notice, NoticeKind
from tidemill.ports.catalog import CatalogWriter
from tidemill.publish.mail import Mail
from tidemill.publish.webhook import Webhook


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


log = logging.getLogger("tidemill.notices")


def receivers(declared: Iterable[Webhook | Mail]) -> dict[str, Receiver]:
    """Everybody who is told, by name; the log always is."""
    return {"log": Log(), **{receiver.name: receiver for receiver in declared}}


@dataclass(frozen=True, slots=True)
class Notifier:
    """Makes notices of what happened, and delivers those that are due. It may take as long as a receiver does."""

    catalog: CatalogWriter
    receivers: Mapping[str, Receiver]

    def __call__(self) -> None:
        self.catalog.make_notices(list(self.receivers))
        for name, notice in self.catalog.due_notices():
            self._deliver(name, notice)

    def _deliver(self, name: str, notice: Notice) -> None:
        receiver = self.receivers.get(name)
        if receiver is None:
            self.catalog.refused(notice.id, f"nobody is called {name!r} any longer")
            return
        if not receiver.wants(notice.kind):
            self.catalog.delivered(notice.id)
            return
        try:
            receiver.take(notice)
        except Exception as error:
            log.warning("notice %d was not taken by %s: %s", notice.id, name, type(error).__name__)
            self.catalog.refused(notice.id, type(error).__name__)
        else:
            self.catalog.delivered(notice.id)
