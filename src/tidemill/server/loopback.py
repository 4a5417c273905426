"""What is this machine?"""

from __future__ import annotations

import ipaddress

NAMES = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.2"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback
