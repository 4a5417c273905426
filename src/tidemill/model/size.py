"""Sizes as people write them."""

from __future__ import annotations

import re

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def bytes_in(size: str | int) -> int:
    """Bytes in a size such as '50 GB' or '1.5 GiB'; a plain number is bytes.

    >>> bytes_in("50 GB"), bytes_in("1.5 KiB"), bytes_in(7)
    (50000000000, 1536, 7)
    """
    found = _SIZE.fullmatch(str(size).strip().lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"not a size: {size!r}; write it like '500 MB', '50 GB' or '2 TiB'")
    return int(float(found[1]) * _UNITS[found[2]])
