"""Network addresses and URLs."""

import ipaddress
import re

_CREDENTIALS = re.compile(r"(?<=//)[^/\s]*@|(?<=[?;])[^\s]*$")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    >>> is_loopback("127.0.0.2"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def hide_credentials(url: str) -> str:
    """A URL for messages: without its user, its password and its parameters.

    >>> hide_credentials("ftp://ann:pw@host/a"), hide_credentials("sc://host/;token=x"), hide_credentials("local[*]")
    ('ftp://…@host/a', 'sc://host/;…', 'local[*]')
    """
    if "://" not in url:
        return url
    return _CREDENTIALS.sub(lambda hidden: "…@" if hidden[0].endswith("@") else "…", url)
