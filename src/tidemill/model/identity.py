"""Identity: a hash that says what something *is*, so that equal things can be recognised."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from tidemill.model.code import walked

Identity = str


def identity(*parts: object) -> Identity:
    """SHA-256 over the structure of the parts; ("a", "b") and ("ab",) differ.

    >>> identity("a", ["b", 1]) == identity("a", ["b", 1])
    True
    >>> identity("a", "b") == identity("ab")
    False
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


EMPTY = identity("empty")


def code_identity(function: Callable[..., Any]) -> Identity:
    """Identity of what a function does: formatting and comments do not matter, helpers of the project do."""
    found = walked(function)
    return identity("code", found.pieces, found.unseen)
