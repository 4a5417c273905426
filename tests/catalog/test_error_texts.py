"""Errors of a database are reported without the values that it quotes."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import IntegrityError

from tidemill.catalog.engine import translate_errors
from tidemill.errors import Conflict


def test_a_violation_is_reported_without_its_values() -> None:
    text = 'duplicate key violates unique constraint "insert_keys"\nDETAIL:  Key (key)=(Alice) already exists.'
    with pytest.raises(Conflict, match="unique constraint") as error, translate_errors(create_engine("sqlite://")):
        raise IntegrityError("INSERT", {"key": "Alice"}, Exception(text))
    assert "Alice" not in str(error.value)
