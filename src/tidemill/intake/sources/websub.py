"""A WebSub subscriber (W3C Recommendation of 2018): asks a hub to send what is published on a topic.

The hub asks back whether it was we who asked (verification of intent), for how long it will send (a lease, which is
renewed in time), and signs what it sends with a secret that only it and we know.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx

from tidemill.errors import BadInput

log = logging.getLogger("tidemill.sources")

PREFIX = "/websub/"
_METHODS = {"sha256", "sha384", "sha512"}  # SHA-1, which hubs may use too, is no longer safe
_TIMEOUT = 10.0
_RENEWED = 0.2  # of the lease that is left when it is renewed
_LOOK = 1.0  # seconds
_LONGEST_PAUSE = 300.0


@dataclass(frozen=True, slots=True)
class WebSubSource:
    """To a topic, for a channel. `callback` is where hubs reach this server from outside."""

    name: str
    channel: str
    topic: str
    callback: str
    secret: str = field(repr=False)
    hub: str | None = None  # None: the topic says which
    lease: int = 86_400  # seconds that are asked for

    @property
    def callback_path(self) -> str:
        """Nobody can guess it who does not know the secret."""
        code = hmac.new(self.secret.encode(), f"callback of {self.name}".encode(), hashlib.sha256).hexdigest()
        return f"{PREFIX}{self.name}/{code}"

    def run(self, still: Callable[[], bool], left: Callable[[], float], pause: Callable[[float], None]) -> None:
        """Subscribe, and again in time, until `still` says no. `left`: seconds until that is due (see `renewal`)."""
        failed = 0
        while still():
            if left() > 0:
                failed = 0
                pause(_LOOK)
                continue
            try:
                self.request_subscription()
            except (httpx.HTTPError, BadInput) as error:
                log.error("source %s: cannot subscribe, trying again: %s", self.name, error)
            failed += 1  # unless the hub asks back before
            pause(min(2.0**failed, _LONGEST_PAUSE))

    def request_subscription(self) -> None:
        with httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as http:
            hub, topic = (self.hub, self.topic) if self.hub else _discover_hub(http, self.topic)
            if topic != self.topic:
                raise BadInput(f"the topic calls itself {topic}; set the source's topic to that")
            wish = {
                "hub.callback": f"{self.callback.rstrip('/')}{self.callback_path}",
                "hub.mode": "subscribe",
                "hub.topic": topic,
                "hub.lease_seconds": str(self.lease),
                "hub.secret": self.secret,
            }
            http.post(hub, data=wish).raise_for_status()

    def is_intended(self, mode: str, topic: str) -> bool:
        """Was it we who asked for this? We never ask to end a subscription that is in the settings."""
        return mode == "subscribe" and topic == self.topic

    def is_signed(self, body: bytes, header: str | None) -> bool:
        method, _, signature = (header or "").partition("=")
        if method not in _METHODS:
            return False
        expected = hmac.new(self.secret.encode(), body, method).hexdigest()
        return hmac.compare_digest(expected.encode(), signature.encode())


def compute_renewal(granted: float) -> float:
    """After how many seconds a lease is to be renewed."""
    return (1 - _RENEWED) * granted


def _discover_hub(http: httpx.Client, topic: str) -> tuple[str, str]:
    """The hub and the name of a topic, as its `Link` headers say."""
    answer = http.get(topic)
    answer.raise_for_status()
    links = answer.links
    if "hub" not in links:
        raise BadInput(f"{topic} names no hub in its Link headers; name it in the settings of the source")
    return links["hub"]["url"], links.get("self", {}).get("url", topic)


def to_json_lines(body: bytes, media: str) -> bytes:
    """Events as JSON lines: they come so, or as one object, or as a list of objects. Digits stay as they are written.

    >>> to_json_lines(b'[{"a": 1.10}, {"a":\\n2}]', "application/json")
    b'{"a": 1.10}\\n{"a": 2}'
    """
    if media.partition(";")[0].strip().lower() in ("application/x-ndjson", "application/jsonl"):
        return body
    try:
        text = body.decode().strip()
        return "\n".join(part.replace("\n", " ").replace("\r", " ") for part in _split_objects(text)).encode()
    except (ValueError, RecursionError) as error:
        raise BadInput(f"what was sent is no JSON ({error}); JSON objects, lists and lines are taken") from error


def _split_objects(text: str) -> Iterator[str]:
    if not text.startswith("["):
        json.loads(text)
        yield text
        return
    json.loads(text)  # so that what follows need not doubt it
    decoder, at = json.JSONDecoder(), _skip_separators(text, 1)
    while text[at] != "]":
        _, end = decoder.raw_decode(text, at)
        yield text[at:end]
        at = _skip_separators(text, end)


def _skip_separators(text: str, at: int) -> int:
    while text[at] in " \t\r\n,":
        at += 1
    return at
