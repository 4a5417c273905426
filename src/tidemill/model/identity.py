"""Identity: a hash that says what something *is*, so that equal things can be recognised."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from tidemill.model.code import trace_code

Identity = str


def compute_identity(*parts: object) -> Identity:
    """SHA-256 over the structure of the parts; ("a", "b") and ("ab",) differ.

    >>> compute_identity("a", ["b", 1]) == compute_identity("a", ["b", 1])
    True
    >>> compute_identity("a", "b") == compute_identity("ab")
    False
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


EMPTY = compute_identity("empty")


def compute_code_identity(function: Callable[..., Any]) -> Identity:
    """Identity of what a function does: formatting and comments do not matter, helpers of the project do."""
    found = trace_code(function)
    return compute_identity("code", found.pieces, found.unseen)
