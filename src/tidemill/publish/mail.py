"""Notices by e-mail."""

from __future__ import annotations

import smtplib
from dataclasses import dataclass, field
from email.message import EmailMessage

from tidemill.model.notice import Notice, NoticeKind

TIMEOUT = 20.0


@dataclass(frozen=True, slots=True)
class Mail:
    """Addresses that are written to through an SMTP server."""

    name: str
    host: str
    sender: str
    to: tuple[str, ...]
    port: int = 587
    starttls: bool = True
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    kinds: frozenset[NoticeKind] = frozenset(NoticeKind)

    def wants(self, kind: NoticeKind) -> bool:
        return kind in self.kinds

    def take(self, notice: Notice) -> None:
        with smtplib.SMTP(self.host, self.port, timeout=TIMEOUT) as server:
            if self.starttls:
                server.starttls()
            if self.user is not None:
                server.login(self.user, self.password or "")
            server.send_message(self.message(notice))

    def message(self, notice: Notice) -> EmailMessage:
        message = EmailMessage()
        message["Subject"] = f"Tidemill: {_line(notice.subject)}: {notice.kind}"
        message["From"] = self.sender
        message["To"] = ", ".join(self.to)
        message["Message-ID"] = f"<notice-{notice.id}@tidemill>"
        message.set_content(notice.text + "\n")
        return message


def _line(text: str) -> str:
    return " ".join(text.split())
