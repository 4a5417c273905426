"""A WebSub subscriber (W3C Recommendation of 2018): subscribes at a hub to the content of a topic.

The hub verifies the subscription by a callback (verification of intent), grants a lease, which is renewed in time, and
signs its content with a shared secret.
"""

import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx

from tidemill.errors import BadInput

log = logging.getLogger("tidemill.sources")

CALLBACK_PREFIX = "/websub/"
_METHODS = {"sha256", "sha384", "sha512"}  # SHA-1, which WebSub also allows, is not secure
_TIMEOUT = 10.0
_RENEWAL_SHARE = 0.2  # remaining share of the lease at which it is renewed
_POLL_SECONDS = 1.0  # seconds
_MAX_PAUSE = 300.0


@dataclass(frozen=True, slots=True)
class WebSubSource:
    """A subscription to a topic for a channel. `callback` is the external address of this server for hubs."""

    name: str
    channel: str
    topic: str
    callback: str
    secret: str = field(repr=False)
    hub: str | None = None  # None: discovered from the topic
    lease: int = 86_400  # requested seconds

    @property
    def callback_path(self) -> str:
        """The callback path, which cannot be guessed without the secret."""
        code = hmac.new(self.secret.encode(), f"callback of {self.name}".encode(), hashlib.sha256).hexdigest()
        return f"{CALLBACK_PREFIX}{self.name}/{code}"

    def run(
        self, is_active: Callable[[], bool], seconds_left: Callable[[], float], pause: Callable[[float], object]
    ) -> None:
        """Subscribe and renew while `is_active` returns True.

        `seconds_left`: seconds until renewal (see `compute_renewal`).
        """
        failures = 0
        while is_active():
            if seconds_left() > 0:
                failures = 0
                pause(_POLL_SECONDS)
                continue
            try:
                self.request_subscription()
            except (httpx.HTTPError, BadInput) as error:
                log.error("source %s: cannot subscribe, retrying: %s", self.name, error)
            failures += 1  # reset once the hub verifies the subscription
            pause(min(2.0**failures, _MAX_PAUSE))

    def request_subscription(self) -> None:
        with httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as http:
            hub, topic = (self.hub, self.topic) if self.hub else _discover_hub(http, self.topic)
            if topic != self.topic:
                raise BadInput(f"the canonical URL of the topic is {topic}; set the source's topic to that")
            form = {
                "hub.callback": f"{self.callback.rstrip('/')}{self.callback_path}",
                "hub.mode": "subscribe",
                "hub.topic": topic,
                "hub.lease_seconds": str(self.lease),
                "hub.secret": self.secret,
            }
            http.post(hub, data=form).raise_for_status()

    def is_intended(self, mode: str, topic: str) -> bool:
        """Whether this source requested the change. Subscriptions in the settings are never cancelled."""
        return mode == "subscribe" and topic == self.topic

    def is_signed(self, body: bytes, header: str | None) -> bool:
        method, _, signature = (header or "").partition("=")
        if method not in _METHODS:
            return False
        expected = hmac.new(self.secret.encode(), body, method).hexdigest()
        return hmac.compare_digest(expected.encode(), signature.encode())


def compute_renewal(granted: float) -> float:
    """The number of seconds after which a lease must be renewed."""
    return (1 - _RENEWAL_SHARE) * granted


def _discover_hub(http: httpx.Client, topic: str) -> tuple[str, str]:
    """The hub and the canonical URL of a topic, from its `Link` headers."""
    response = http.get(topic)
    response.raise_for_status()
    links = response.links
    if "hub" not in links:
        raise BadInput(f"{topic} has no hub in its Link headers; set the hub in the settings of the source")
    return links["hub"]["url"], links.get("self", {}).get("url", topic)


def to_json_lines(body: bytes, media: str) -> bytes:
    """Events as JSON lines, from JSON lines, one object or a list of objects. Numbers keep all their digits.

    >>> to_json_lines(b'[{"a": 1.10}, {"a":\\n2}]', "application/json")
    b'{"a": 1.10}\\n{"a": 2}'
    """
    if media.partition(";")[0].strip().lower() in ("application/x-ndjson", "application/jsonl"):
        return body
    try:
        text = body.decode().strip()
        return "\n".join(part.replace("\n", " ").replace("\r", " ") for part in _split_objects(text)).encode()
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the content is not JSON ({error}); send JSON objects, lists or lines") from error


def _split_objects(text: str) -> Iterator[str]:
    if not text.startswith("["):
        json.loads(text)
        yield text
        return
    json.loads(text)  # validates the text for the loop below
    decoder, start = json.JSONDecoder(), _skip_separators(text, 1)
    while text[start] != "]":
        _, end = decoder.raw_decode(text, start)
        yield text[start:end]
        start = _skip_separators(text, end)


def _skip_separators(text: str, position: int) -> int:
    while text[position] in " \t\r\n,":
        position += 1
    return position
