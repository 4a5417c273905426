"""A server's log has full texts, and no secrets."""

from __future__ import annotations

import logging
import sys

from tidemill.app.log_format import RedactingFormatter
from tidemill.model.redaction import Redactor


def test_stack_traces_are_logged_without_secrets() -> None:
    try:
        raise ValueError("row 'Ann', sent to https://ann:pw@host with hunter2-and-more")
    except ValueError:
        record = logging.LogRecord("tidemill", logging.ERROR, __file__, 1, "run %d", (4,), sys.exc_info())
    text = RedactingFormatter(Redactor.from_values({"TOKEN": "hunter2-and-more"})).format(record)
    assert "ERROR run 4" in text
    assert "ValueError: row 'Ann', sent to https://ann:***@host with ***" in text
