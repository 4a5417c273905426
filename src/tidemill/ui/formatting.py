"""Formatting of single values: times, durations, sizes, counts, cells. Time is an argument."""

from __future__ import annotations

import base64
import datetime as dt
import json
from typing import Any

from tidemill.model.time import Version

MISSING = "–"
MAX_CELL_CHARACTERS = 300
"""Characters of a cell that are shown."""

_STEPS = ((60.0, 1.0, "s"), (3600.0, 60.0, "min"), (48 * 3600.0, 3600.0, "h"), (float("inf"), 86400.0, "days"))
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def to_timestamp(version: Version | None) -> float | None:
    """The timestamp of a version, in seconds."""
    return None if version is None else version / 1_000_000


def format_span(seconds: float) -> str:
    """A duration in its most informative unit.

    >>> format_span(0.4), format_span(42), format_span(200), format_span(90_000), format_span(200_000)
    ('0.4 s', '42 s', '3 min', '25 h', '2 days')
    """
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    unit, name = next((unit, name) for below, unit, name in _STEPS if seconds < below)
    return f"{int(seconds / unit)} {name}"


def format_age(timestamp: float | None, now: float) -> str:
    """The time since a timestamp, or until it.

    >>> format_age(0, 3), format_age(0, 200), format_age(100, 40), format_age(None, 0)
    ('just now', '3 min ago', 'in 1 min', '–')
    """
    if timestamp is None:
        return MISSING
    if abs(now - timestamp) < 10:
        return "just now" if timestamp <= now else "now"
    return f"{format_span(now - timestamp)} ago" if timestamp < now else f"in {format_span(timestamp - now)}"


def format_duration(started: float | None, finished: float | None, now: float) -> str:
    """The duration of something, or its duration so far.

    >>> format_duration(10.0, 12.345, 99), format_duration(10.0, None, 99), format_duration(None, None, 99)
    ('2.3 s', '89 s …', '–')
    """
    if started is None:
        return MISSING
    return format_span(finished - started) if finished is not None else f"{_format_whole_seconds(now - started)} …"


def _format_whole_seconds(seconds: float) -> str:
    return f"{int(seconds)} s" if seconds < 120 else format_span(seconds)


def format_utc(timestamp: float | None) -> str:
    """An exact timestamp in UTC.

    >>> format_utc(1.5)
    '1970-01-01 00:00:01Z'
    """
    return MISSING if timestamp is None else f"{dt.datetime.fromtimestamp(timestamp, dt.UTC):%Y-%m-%d %H:%M:%S}Z"


def format_count(number: int | None) -> str:
    """
    >>> format_count(1234567), format_count(None)
    ('1,234,567', '–')
    """
    return MISSING if number is None else f"{number:,}"


def format_plural(number: int, noun: str) -> str:
    """
    >>> format_plural(1, "row"), format_plural(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_size(number: float) -> str:
    """
    >>> format_size(999), format_size(34_000), format_size(2_500_000)
    ('999 B', '34.0 kB', '2.5 MB')
    """
    for unit in _UNITS:
        if number < 1000 or unit == _UNITS[-1]:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError("unreachable")


def take_first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def format_cell(value: Any) -> str:
    """A value of a row on one line. Control characters are escaped, and long values are truncated.

    >>> format_cell("a\\tb"), format_cell(None), format_cell({"k": 1.5}), format_cell(b"x")
    ('a\\\\tb', 'null', '{"k": 1.5}', 'eA==')
    """
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return _shorten_text(base64.b64encode(value).decode())
    if isinstance(value, dict | list | tuple | bool):
        return _shorten_text(json.dumps(value, ensure_ascii=False, default=str))
    return _shorten_text(str(value))


def _shorten_text(text: str) -> str:
    shortened = text if len(text) <= MAX_CELL_CHARACTERS else text[:MAX_CELL_CHARACTERS] + " …"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shortened)
