"""Notices by e-mail."""

import smtplib
from dataclasses import dataclass, field
from email.message import EmailMessage

from tidemill.model.notice import Notice, NoticeKind

SMTP_TIMEOUT = 20.0


@dataclass(frozen=True, slots=True)
class SmtpMailer:
    """Sends messages to fixed addresses through an SMTP server."""

    host: str
    sender: str
    to: tuple[str, ...]
    port: int = 587
    starttls: bool = True
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def build_message(self, subject: str, number: str) -> EmailMessage:
        """A message without content. The number, which becomes its id, is the same for all delivery attempts."""
        message = EmailMessage()
        message["Subject"] = f"Tidemill: {subject}"
        message["From"] = self.sender
        message["To"] = ", ".join(self.to)
        message["Message-ID"] = f"<{number}@tidemill>"
        return message

    def send_message(self, message: EmailMessage) -> None:
        with smtplib.SMTP(self.host, self.port, timeout=SMTP_TIMEOUT) as server:
            if self.starttls:
                server.starttls()
            if self.user is not None:
                server.login(self.user, self.password or "")
            server.send_message(message)


@dataclass(frozen=True, slots=True)
class MailReceiver:
    """A recipient of notices by e-mail."""

    name: str
    mailer: SmtpMailer
    kinds: frozenset[NoticeKind] = frozenset(NoticeKind)

    def send_notice(self, notice: Notice) -> None:
        self.mailer.send_message(self.build_notice_message(notice))

    def build_notice_message(self, notice: Notice) -> EmailMessage:
        subject = " ".join(notice.subject.split())
        message = self.mailer.build_message(f"{subject}: {notice.kind}", f"notice-{notice.id}")
        message.set_content(notice.text + "\n")
        return message
