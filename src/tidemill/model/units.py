"""Durations and sizes such as '7 days' and '50 GB': parsing, and formats for messages."""

import re
from numbers import Real

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_NAMES = {
    "millisecond": "ms",
    "second": "s",
    "sec": "s",
    "minute": "m",
    "min": "m",
    "hour": "h",
    "day": "d",
    "week": "w",
}
_EXAMPLES = "write it like '30s', '15 minutes' or '7 days'"
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


def parse_duration(duration: str | float) -> float:
    """Seconds in a duration such as '90s', '7 days' or '1h 30m'; a plain number is seconds.

    >>> parse_duration("7 days"), parse_duration("1h 30m"), parse_duration(2)
    (604800.0, 5400.0, 2.0)
    """
    if isinstance(duration, Real) and not isinstance(duration, bool):
        return float(duration)
    if not isinstance(duration, str):
        raise ValueError(f"not a duration: {duration!r}; {_EXAMPLES}")
    text = duration.strip().lower()
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip(" ,"):
        raise ValueError(f"not a duration: {duration!r}; {_EXAMPLES}")
    return sum(float(n) * _find_unit(unit, duration) for n, unit in parts)


def _find_unit(word: str, duration: str) -> float:
    unit = _NAMES.get(word.rstrip("s") if len(word) > 2 else word, word)
    if unit not in _SECONDS:
        raise ValueError(f"not a duration: {duration!r}; its units are {', '.join(_SECONDS)}")
    return _SECONDS[unit]


_DECIMAL = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTES = _DECIMAL | {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


def parse_size(size: str | int) -> int:
    """Bytes in a size such as '50 GB' or '1.5 GiB'; a plain number is bytes.

    >>> parse_size("50 GB"), parse_size("1.5 KiB"), parse_size(7)
    (50000000000, 1536, 7)
    """
    match = _SIZE.fullmatch(str(size).strip().lower())
    if match is None or match[2] not in _BYTES:
        raise ValueError(f"not a size: {size!r}; write it like '500 MB', '50 GB' or '2 TiB'")
    return int(float(match[1]) * _BYTES[match[2]])


_STEPS = ((60.0, 1.0, "s"), (3600.0, 60.0, "min"), (48 * 3600.0, 3600.0, "h"), (float("inf"), 86400.0, "days"))
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def format_span(seconds: float) -> str:
    """A duration in its most informative unit.

    >>> format_span(0.4), format_span(42), format_span(200), format_span(90_000), format_span(200_000)
    ('0.4 s', '42 s', '3 min', '25 h', '2 days')
    """
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    unit, name = next((unit, name) for below, unit, name in _STEPS if seconds < below)
    return f"{int(seconds / unit)} {name}"


def format_size(number: float) -> str:
    """
    >>> format_size(999), format_size(34_000), format_size(2_500_000)
    ('999 B', '34.0 kB', '2.5 MB')
    """
    power = 0
    while number >= 1000 and power < len(_UNITS) - 1:
        number, power = number / 1000, power + 1
    return f"{number:.{min(power, 1)}f} {_UNITS[power]}"
