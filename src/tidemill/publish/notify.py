"""Delivery of notices: each to every receiver, repeated until it is accepted or has failed too often."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tidemill.model.notice import Notice, NoticeKind
from tidemill.ports.catalog import NoticeCatalog
from tidemill.publish.mail import MailReceiver
from tidemill.publish.webhook import WebhookReceiver

log = logging.getLogger("tidemill.notices")

_LEVELS = {
    NoticeKind.RUN_FAILED: logging.ERROR,
    NoticeKind.TARGET_MISSED: logging.WARNING,
    NoticeKind.STORAGE_EXCEEDED: logging.WARNING,
}


class NoticeReceiver(Protocol):
    """Accepts notices, or raises."""

    @property
    def kinds(self) -> frozenset[NoticeKind]: ...
    def send_notice(self, notice: Notice) -> None: ...


@dataclass(frozen=True, slots=True)
class LogReceiver:
    """The server's log as a receiver of notices."""

    kinds: frozenset[NoticeKind] = frozenset(NoticeKind)

    def send_notice(self, notice: Notice) -> None:
        log.log(_LEVELS.get(notice.kind, logging.INFO), "%s", notice.text)


def build_receivers(declared: Iterable[WebhookReceiver | MailReceiver]) -> dict[str, NoticeReceiver]:
    """The receivers by name; the log is always among them."""
    return {"log": LogReceiver(), **{receiver.name: receiver for receiver in declared}}


@dataclass(frozen=True, slots=True)
class Notifier:
    """Creates notices from events, and delivers those that are due. A slow receiver delays the call."""

    notices: NoticeCatalog
    receivers: Mapping[str, NoticeReceiver]

    def __call__(self) -> None:
        self.notices.create(list(self.receivers))
        for name, notice in self.notices.list_due():
            self._deliver_notice(name, notice)

    def _deliver_notice(self, name: str, notice: Notice) -> None:
        receiver = self.receivers.get(name)
        if receiver is None:
            self.notices.record_delivery_failure(notice.id, f"there is no receiver {name!r} any longer")
            return
        if notice.kind not in receiver.kinds:
            self.notices.record_delivery(notice.id)
            return
        try:
            receiver.send_notice(notice)
        except Exception as error:
            log.warning("notice %d was not accepted by %s: %s", notice.id, name, type(error).__name__)
            self.notices.record_delivery_failure(notice.id, type(error).__name__)
        else:
            self.notices.record_delivery(notice.id)
