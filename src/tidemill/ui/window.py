"""How much of the past is drawn: an hour, or less where there is less to see."""

from __future__ import annotations

WINDOWS = (4 * 60.0, 20 * 60.0, 3600.0)
"""In seconds; the first that holds everything is taken."""


def window(first: float | None, now: float) -> float:
    """The length of time to draw, given when the first of what there is began.

    >>> window(first=100.0, now=200.0), window(first=0.0, now=10_000.0), window(first=None, now=0.0)
    (240.0, 3600.0, 240.0)
    """
    needed = 0.0 if first is None else now - first
    return next((length for length in WINDOWS if length >= needed), WINDOWS[-1])


def marks(length: float) -> tuple[str, ...]:
    """Five marks below a drawing of that length.

    >>> marks(3600.0)
    ('60 min ago', '45', '30', '15', 'now')
    """
    minutes = [length / 60 * part / 4 for part in (4, 3, 2, 1)]
    return (f"{minutes[0]:g} min ago", *(f"{m:g}" for m in minutes[1:]), "now")
