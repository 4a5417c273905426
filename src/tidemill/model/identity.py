"""Identity: a hash that says what something *is*, so that equal things can be recognised."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import textwrap
from collections.abc import Callable
from typing import Any

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
    """Identity of a function's code: formatting, comments and docstrings do not matter."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return identity("opaque", getattr(function, "__qualname__", repr(function)))
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.decorator_list = []
            _drop_docstring(node)
    return identity("code", ast.dump(tree))


def _drop_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
    if ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass()]
