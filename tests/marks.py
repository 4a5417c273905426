"""Marks of single parameters."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def long(*values: object, id: str | None = None) -> ParameterSet:
    """Parameters that only `make test-long` tries."""
    return pytest.param(*values, id=id, marks=pytest.mark.long)
