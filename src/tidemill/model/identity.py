"""Identity: a content hash, so that equal values can be recognised."""

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


EMPTY_IDENTITY = compute_identity("empty")


def compute_code_identity(function: Callable[..., Any]) -> Identity:
    """The identity of a function's code: formatting and comments do not count, helpers of the project do."""
    closure = trace_code(function)
    return compute_identity("code", closure.pieces, closure.unseen)
