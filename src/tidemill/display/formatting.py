"""Formats single values: times, durations, sizes, counts."""

import datetime as dt

from tidemill.model.time import Version
from tidemill.model.units import format_span

_OLD_SECONDS = 60 * 86400.0  # from here on a date says more than an age


def to_timestamp(version: Version | None) -> float | None:
    """The time of a version, in seconds since the epoch."""
    return None if version is None else version / 1_000_000


def format_age(timestamp: float | None, now: float) -> str | None:
    """The time since a timestamp, or until it; long ago, its date.

    >>> format_age(0, 3), format_age(0, 200), format_age(100, 40), format_age(0, 90 * 86400), format_age(None, 0)
    ('just now', '3 min ago', 'in 1 min', '1970-01-01', None)
    """
    if timestamp is None:
        return None
    if abs(now - timestamp) < 10:
        return "just now" if timestamp <= now else "now"
    if now - timestamp > _OLD_SECONDS:
        return f"{dt.datetime.fromtimestamp(timestamp, dt.UTC):%Y-%m-%d}"
    return f"{format_span(now - timestamp)} ago" if timestamp < now else f"in {format_span(timestamp - now)}"


def format_duration(started: float | None, finished: float | None, now: float) -> str | None:
    """The duration of something, or its duration so far.

    >>> format_duration(10.0, 12.345, 99), format_duration(10.0, None, 99), format_duration(None, None, 99)
    ('2.3 s', '89 s …', None)
    """
    if started is None:
        return None
    if finished is not None:
        return format_span(finished - started)
    return f"{int(now - started)} s …" if now - started < 120 else f"{format_span(now - started)} …"


def format_utc(timestamp: float | None) -> str | None:
    """An exact timestamp in UTC.

    >>> format_utc(1.5)
    '1970-01-01 00:00:01Z'
    """
    return None if timestamp is None else f"{dt.datetime.fromtimestamp(timestamp, dt.UTC):%Y-%m-%d %H:%M:%S}Z"


def format_count(number: int | None) -> str | None:
    """
    >>> format_count(1234567), format_count(None)
    ('1,234,567', None)
    """
    return None if number is None else f"{number:,}"


def format_plural(number: int, noun: str) -> str:
    """
    >>> format_plural(1, "row"), format_plural(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_seconds(seconds: float | None, digits: int = 2) -> str | None:
    return None if seconds is None else f"{seconds:.{digits}f}"


def take_first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def escape_controls(text: object) -> str:
    """A value on one line with escaped control characters, so that data cannot control the terminal.

    >>> escape_controls("a\\tb")
    'a\\\\tb'
    """
    line = str(text)
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
