"""The texts of the queries, as Spark SQL."""

from __future__ import annotations

from pathlib import Path

NUMBERS = range(1, 23)


def text_of(number: int) -> str:
    """The query of that number.

    >>> text_of(6).splitlines()[0]
    '-- Forecasting revenue change'
    """
    return Path(__file__).with_name(f"q{number:02}.sql").read_text(encoding="utf-8")
