"""Notices to a real HTTP server and a real mail server, which sometimes reject them."""

from __future__ import annotations

import hashlib
import hmac
import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.catalog.driver import COPY, WORKFLOW, Driver, FakeClock

from tidemill.catalog import open_catalog
from tidemill.model.notice import MAX_DELIVERY_ATTEMPTS, Notice, NoticeKind
from tidemill.publish.mail import MailReceiver, SmtpMailer
from tidemill.publish.notify import Notifier, build_receivers
from tidemill.publish.webhook import WebhookReceiver

FAILED = Notice(NoticeKind.RUN_FAILED, "f", "it failed", 1.0, {}, 7)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    clock = FakeClock()
    catalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", clock)
    catalog.workflows.apply(WORKFLOW)
    yield Driver(catalog, clock)
    catalog.close()


class WebhookServer(ThreadingHTTPServer):
    """Receives webhooks and answers with a settable status."""

    daemon_threads = True
    status = 204

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _WebhookHandler)
        self.received: list[tuple[dict[str, str], bytes]] = []


class _WebhookHandler(BaseHTTPRequestHandler):
    server: WebhookServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((dict(self.headers), body))
        self.send_response(self.server.status)
        self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        return


@pytest.fixture
def hook() -> Iterator[WebhookServer]:
    server = WebhookServer()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def build_receiver(hook: WebhookServer, *kinds: NoticeKind) -> WebhookReceiver:
    address = f"http://127.0.0.1:{hook.server_address[1]}/notices"
    return WebhookReceiver("ops", address, "secret", frozenset(kinds or NoticeKind), clock=lambda: 1234.5)


def fail(driver: Driver) -> None:
    claim = driver.open_flow(COPY)
    driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="no room")


def test_a_failing_flow_is_reported_once_and_again_when_it_recovers(driver: Driver, hook: WebhookServer) -> None:
    notify = Notifier(driver.catalog.notices, build_receivers([build_receiver(hook)]))
    fail(driver)
    driver.run_flow()
    notify()  # earlier events are not reported
    for _ in range(3):
        fail(driver)
        notify()
    driver.run_flow()
    notify()
    notify()
    texts = [json.loads(body)["text"] for _, body in hook.received]
    assert texts == ["copy failed: no room", "copy runs again"]


def test_a_webhook_is_signed(hook: WebhookServer) -> None:
    build_receiver(hook).send_notice(FAILED)
    ((headers, body),) = hook.received
    expected = hmac.new(b"secret", b"1234." + body, hashlib.sha256).hexdigest()
    assert headers["Tidemill-Signature"] == f"t=1234,v1={expected}"
    assert headers["Tidemill-Notice"] == "7"


@pytest.mark.parametrize("status", [500, 404, 302])
def test_a_rejected_notice_is_retried_a_limited_number_of_times(
    driver: Driver, hook: WebhookServer, status: int
) -> None:
    notify = Notifier(driver.catalog.notices, build_receivers([build_receiver(hook)]))
    notify()
    hook.status = status
    fail(driver)
    notify()
    notify()
    assert len(hook.received) == 1
    for _ in range(MAX_DELIVERY_ATTEMPTS + 3):
        driver.clock.now += 10_000
        notify()
    assert len(hook.received) == MAX_DELIVERY_ATTEMPTS
    assert len({headers["Tidemill-Notice"] for headers, _ in hook.received}) == 1


def test_only_subscribed_notices_are_sent(driver: Driver, hook: WebhookServer) -> None:
    notify = Notifier(driver.catalog.notices, build_receivers([build_receiver(hook, NoticeKind.RUN_RECOVERED)]))
    notify()
    fail(driver)
    notify()
    assert hook.received == []


def test_an_unreachable_receiver_does_not_block_others(driver: Driver, hook: WebhookServer) -> None:
    unreachable = WebhookReceiver("gone", "http://127.0.0.1:9/", "secret")
    notify = Notifier(driver.catalog.notices, build_receivers([unreachable, build_receiver(hook)]))
    notify()
    fail(driver)
    notify()
    assert len(hook.received) == 1


def test_a_changed_schema_is_reported(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    notify = Notifier(driver.catalog.notices, build_receivers([]))
    driver.run_flow()
    notify()
    driver.run_flow_with("x int, y string")
    notify()
    assert "d has another schema" in caplog.text
    assert "y" in caplog.text


def test_secrets_are_not_in_the_repr() -> None:
    hook, mail = (
        WebhookReceiver("ops", "http://x", "hush"),
        MailReceiver("m", SmtpMailer("h", "a@b", ("c@d",), password="hush")),
    )
    assert "hush" not in f"{hook} {mail}"


class MailServer(socketserver.ThreadingTCPServer):
    """A minimal mail server that receives messages."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _MailHandler)
        self.messages: list[str] = []


class _MailHandler(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            command = line.split()[0].upper()
            if command == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                self.server.messages.append(self._read_message())
            self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")

    def _read_message(self) -> str:
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line.decode())
        return "".join(lines)


def test_a_notice_is_sent_by_mail() -> None:
    mail_server = MailServer()
    thread = threading.Thread(target=mail_server.serve_forever)
    thread.start()
    try:
        mailer = SmtpMailer(
            "127.0.0.1", "mill@example.org", ("a@example.org",), mail_server.server_address[1], starttls=False
        )
        mail = MailReceiver("m", mailer)
        mail.send_notice(Notice(NoticeKind.RUN_FAILED, "f\nBcc: x@y", "it failed", 1.0, {}, 7))
    finally:
        mail_server.shutdown()
        thread.join()
        mail_server.server_close()
    (message,) = mail_server.messages
    assert "Subject: Tidemill: f Bcc: x@y: run failed" in message
    assert "Message-ID: <notice-7@tidemill>" in message
