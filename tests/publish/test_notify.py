"""Notices on their way: to a real HTTP server and a real mail server, which do not always take them."""

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
from tidemill.publish import MailReceiver, Notifier, SmtpMailer, WebhookReceiver, build_receivers

FAILED = Notice(NoticeKind.RUN_FAILED, "f", "it failed", 1.0, {}, 7)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    clock = FakeClock()
    catalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", clock)
    catalog.apply_workflow(WORKFLOW)
    yield Driver(catalog, clock)
    catalog.close()


class Hook(ThreadingHTTPServer):
    """Takes webhooks, as long as it is told to."""

    daemon_threads = True
    status = 204

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.taken: list[tuple[dict[str, str], bytes]] = []


class _Taking(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((dict(self.headers), body))
        self.send_response(self.server.status)
        self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        return


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def webhook(hook: Hook, *kinds: NoticeKind) -> WebhookReceiver:
    address = f"http://127.0.0.1:{hook.server_address[1]}/notices"
    return WebhookReceiver("ops", address, "secret", frozenset(kinds or NoticeKind), clock=lambda: 1234.5)


def fail(driver: Driver) -> None:
    claim = driver.open_flow(COPY)
    driver.catalog.fail_run(claim.run.id, claim.run.fencing_token, error="no room")


def test_a_failing_flow_is_told_of_once_and_again_when_it_recovers(driver: Driver, hook: Hook) -> None:
    tell = Notifier(driver.catalog, build_receivers([webhook(hook)]))
    fail(driver)
    driver.run_flow()
    tell()  # what was before anybody listened is not told
    for _ in range(3):
        fail(driver)
        tell()
    driver.run_flow()
    tell()
    tell()
    texts = [json.loads(body)["text"] for _, body in hook.taken]
    assert texts == ["copy failed: no room", "copy runs again"]


def test_a_webhook_can_be_verified(hook: Hook) -> None:
    webhook(hook).send_notice(FAILED)
    ((headers, body),) = hook.taken
    expected = hmac.new(b"secret", b"1234." + body, hashlib.sha256).hexdigest()
    assert headers["Tidemill-Signature"] == f"t=1234,v1={expected}"
    assert headers["Tidemill-Notice"] == "7"


@pytest.mark.parametrize("status", [500, 404, 302])
def test_what_is_not_taken_is_tried_again_later_but_not_for_ever(driver: Driver, hook: Hook, status: int) -> None:
    tell = Notifier(driver.catalog, build_receivers([webhook(hook)]))
    tell()
    hook.status = status
    fail(driver)
    tell()
    tell()
    assert len(hook.taken) == 1
    for _ in range(MAX_DELIVERY_ATTEMPTS + 3):
        driver.clock.now += 10_000
        tell()
    assert len(hook.taken) == MAX_DELIVERY_ATTEMPTS
    assert len({headers["Tidemill-Notice"] for headers, _ in hook.taken}) == 1


def test_only_what_somebody_asked_for(driver: Driver, hook: Hook) -> None:
    tell = Notifier(driver.catalog, build_receivers([webhook(hook, NoticeKind.RUN_RECOVERED)]))
    tell()
    fail(driver)
    tell()
    assert hook.taken == []


def test_a_receiver_that_is_not_there_blocks_nobody(driver: Driver, hook: Hook) -> None:
    gone = WebhookReceiver("gone", "http://127.0.0.1:9/", "secret")
    tell = Notifier(driver.catalog, build_receivers([gone, webhook(hook)]))
    tell()
    fail(driver)
    tell()
    assert len(hook.taken) == 1


def test_another_schema_is_told_of(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    tell = Notifier(driver.catalog, build_receivers([]))
    driver.run_flow()
    tell()
    driver.run_flow_with("x int, y string")
    tell()
    assert "d has another schema" in caplog.text
    assert "y" in caplog.text


def test_no_secret_is_shown() -> None:
    hook, mail = (
        WebhookReceiver("ops", "http://x", "hush"),
        MailReceiver("m", SmtpMailer("h", "a@b", ("c@d",), password="hush")),
    )
    assert "hush" not in f"{hook} {mail}"


class Post(socketserver.ThreadingTCPServer):
    """As much of a mail server as it takes to take a letter."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Letters)
        self.letters: list[str] = []


class _Letters(socketserver.StreamRequestHandler):
    server: Post

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            command = line.split()[0].upper()
            if command == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                self.server.letters.append(self._letter())
            self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")

    def _letter(self) -> str:
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line.decode())
        return "".join(lines)


def test_a_letter_arrives() -> None:
    post = Post()
    thread = threading.Thread(target=post.serve_forever)
    thread.start()
    try:
        by = SmtpMailer("127.0.0.1", "mill@example.org", ("a@example.org",), post.server_address[1], starttls=False)
        mail = MailReceiver("m", by)
        mail.send_notice(Notice(NoticeKind.RUN_FAILED, "f\nBcc: x@y", "it failed", 1.0, {}, 7))
    finally:
        post.shutdown()
        thread.join()
        post.server_close()
    (letter,) = post.letters
    assert "Subject: Tidemill: f Bcc: x@y: run failed" in letter
    assert "Message-ID: <notice-7@tidemill>" in letter
