"""Formatting of users' data in cells."""

from __future__ import annotations

import base64
import json
from typing import Any

from tidemill.display.formatting import escape_controls

MAX_CELL_CHARACTERS = 300
"""Characters of a cell that are shown."""


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
    return escape_controls(shortened)
