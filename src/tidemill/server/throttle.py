"""A limit on wrong tokens: addresses with many failures have to wait."""

from __future__ import annotations

import ipaddress
import threading
from collections import OrderedDict, deque
from math import ceil

from tidemill.ports.catalog import Clock
from tidemill.wire.refusals import TooManyFailures

_REMEMBERED = 10_000  # addresses at most, so that guessing from ever new addresses does not fill the memory
_NETWORK = 64  # bits of an IPv6 address that one customer shares


class Throttle:
    """At most `max_failures` failures from one address within `window` seconds; further requests are refused until
    then.
    """

    def __init__(self, clock: Clock, *, max_failures: int = 10, window: float = 60.0) -> None:
        self._clock = clock
        self._max_failures = max_failures
        self._window = window
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def check_address(self, address: str) -> None:
        """Raise if the address has to wait; its tokens are not checked then."""
        with self._lock:
            recent = self._list_recent(_to_network(address))
            if len(recent) < self._max_failures:
                return
            delay = max(1, ceil(recent[-self._max_failures] + self._window - self._clock()))
        raise TooManyFailures(f"too many wrong tokens came from your address; try again in {delay} s", delay)

    def record_failure(self, address: str) -> None:
        with self._lock:
            network = _to_network(address)
            recent = self._list_recent(network)
            recent.append(self._clock())
            self._failures[network] = recent
            self._failures.move_to_end(network)
            while len(self._failures) > _REMEMBERED:
                self._failures.popitem(last=False)

    def _list_recent(self, network: str) -> deque[float]:
        recent = self._failures.get(network) or deque(maxlen=self._max_failures)
        while recent and recent[0] <= self._clock() - self._window:
            recent.popleft()
        return recent


def _to_network(address: str) -> str:
    """
    >>> _to_network("192.0.2.7"), _to_network("2001:db8:0:1:2:3:4:5"), _to_network("2001:db8:0:1::9")
    ('192.0.2.7', '2001:db8:0:1::', '2001:db8:0:1::')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, _NETWORK), strict=False).network_address)
    return str(parsed)
