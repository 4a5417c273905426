"""Formats single values for people: times, durations, sizes, counts. Time is an argument."""

from __future__ import annotations

import datetime as dt

from rich.filesize import decimal

from tidemill.model.time import Version

NONE = "-"

_STEPS = ((60.0, 1.0, "s"), (3600.0, 60.0, "min"), (48 * 3600.0, 3600.0, "h"), (60 * 86400.0, 86400.0, "days"))


def to_timestamp(version: Version | None) -> float | None:
    """Return the time of a version, in seconds since the epoch."""
    return None if version is None else version / 1_000_000


def format_age(time: float | None, now: float) -> str:
    """Format how long ago a time was; long ago, its date.

    >>> format_age(0, 0.5), format_age(0, 200), format_age(100, 40), format_age(0, 90 * 86400)
    ('just now', '3 min ago', 'in 1 min', '1970-01-01')
    """
    if time is None:
        return NONE
    distance = abs(now - time)
    if distance < 1:
        return "just now"
    for limit, unit, name in _STEPS:
        if distance < limit:
            span = f"{int(distance / unit)} {name}"
            return f"{span} ago" if time < now else f"in {span}"
    return f"{dt.datetime.fromtimestamp(time, dt.UTC):%Y-%m-%d}"


def format_duration(started: float | None, finished: float | None) -> str:
    """
    >>> format_duration(10.0, 12.345), format_duration(0, 3700), format_duration(10.0, None)
    ('2.3 s', '1 h 1 min', '-')
    """
    if started is None or finished is None:
        return NONE
    seconds = finished - started
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min {int(seconds % 60)} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_count(number: int | None) -> str:
    """
    >>> format_count(1234567)
    '1,234,567'
    """
    return NONE if number is None else f"{number:,}"


def format_size(number: int) -> str:
    """
    >>> format_size(34_000)
    '34.0 kB'
    """
    return decimal(number)


def format_plural(number: int, noun: str) -> str:
    """
    >>> format_plural(1, "row"), format_plural(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def escape_controls(text: object) -> str:
    """Return a value on one line with escaped control characters, so that data cannot control the terminal.

    >>> escape_controls("a\\tb")
    'a\\\\tb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))
