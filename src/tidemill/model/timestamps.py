"""Timestamps: conversion between the catalog's clock, seconds since the epoch and text."""

import datetime as dt

from tidemill.errors import BadInput
from tidemill.model.time import Version
from tidemill.model.units import parse_duration


def to_microseconds(timestamp: float) -> Version:
    """Seconds since the epoch as a reading of the catalog's clock."""
    return int(timestamp * 1_000_000)


def parse_instant(text: str) -> Version:
    """Parse an ISO 8601 time, in UTC unless it names a zone.

    >>> parse_instant("1970-01-01 00:00:01.5")
    1500000
    """
    try:
        instant = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"not a time: {text!r}; write it like '2026-05-01 12:00' or with a zone") from error
    return to_microseconds((instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)).timestamp())


def parse_moment(text: str, now: float) -> float:
    """Parse a time, or a duration before `now`, to seconds since the epoch.

    >>> parse_moment("1 hour", 10_000.0), parse_moment("1970-01-02", 0.0)
    (6400.0, 86400.0)
    """
    try:
        return now - parse_duration(text)
    except ValueError:
        return _parse_instant_seconds(text)


def _parse_instant_seconds(text: str) -> float:
    try:
        return parse_instant(text) / 1_000_000
    except ValueError as error:
        raise BadInput(f"{text!r} is neither a duration such as '7 days' nor a time: {error}") from error


def format_version(version: Version) -> str:
    """A reading of the catalog's clock as text.

    >>> format_version(1500000)
    '1970-01-01 00:00:01.500000'
    """
    return f"{dt.datetime.fromtimestamp(version / 1_000_000, dt.UTC):%Y-%m-%d %H:%M:%S.%f}"


def format_iso(timestamp: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601 in UTC.

    >>> format_iso(1.5)
    '1970-01-01T00:00:01.500000Z'
    """
    if timestamp is None:
        return None
    return dt.datetime.fromtimestamp(timestamp, dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
