"""Notices by webhook, signed.

The body is the notice as JSON. `Tidemill-Signature` is `t=<seconds>,v1=<hex>`, the HMAC-SHA-256 of `<seconds>.<body>`
with a shared secret, so that a receiver can verify the sender and reject replays. `Tidemill-Notice` stays the same when
a notice is sent again.
"""

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.request import HTTPRedirectHandler, Request, build_opener

from tidemill.model.notice import Notice, NoticeKind

WEBHOOK_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class WebhookReceiver:
    name: str
    url: str
    secret: str = field(repr=False)
    kinds: frozenset[NoticeKind] = frozenset(NoticeKind)
    clock: Callable[[], float] = time.time

    def send_notice(self, notice: Notice) -> None:
        body = json.dumps(notice.to_document()).encode()
        headers = {"Content-Type": "application/json", "Tidemill-Notice": str(notice.id)}
        post_body(self.url, body, headers | {"Tidemill-Signature": sign_body(self.secret, body, int(self.clock()))})


def post_body(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a POST request; raises unless it is accepted."""
    request = Request(url, data=body, headers=dict(headers), method="POST")
    with build_opener(_NoRedirect).open(request, timeout=WEBHOOK_TIMEOUT) as response:
        response.read(1)


def sign_body(secret: str, body: bytes, at: int) -> str:
    """The value of the signature header.

    >>> sign_body("s", b"{}", 5)[:8]
    't=5,v1=7'
    """
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class _NoRedirect(HTTPRedirectHandler):
    """Rejects redirects: a redirected notice would go to an address that is not in the settings."""

    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        return None
