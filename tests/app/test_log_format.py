"""A server's log has stack traces, and neither secrets nor values of rows."""

from __future__ import annotations

import logging
import sys

from tidemill.app.log_format import RedactingFormatter
from tidemill.errors import BadInput
from tidemill.model.redaction import Redactor


def raise_about_row(name: str) -> None:
    raise ValueError(f"the row {name} is late, sent to https://ann:pw@host")


def test_stack_traces_are_logged_without_secrets_and_values() -> None:
    name = "Ann"
    try:
        try:
            raise_about_row(name)
        except ValueError as error:
            raise BadInput("hunter2-and-more was refused") from error
    except BadInput:
        record = logging.LogRecord("tidemill", logging.ERROR, __file__, 1, "run %d", (4,), sys.exc_info())
    text = RedactingFormatter(Redactor.from_values({"TOKEN": "hunter2-and-more"})).format(record)
    assert "ERROR run 4" in text
    assert "in raise_about_row" in text
    assert "ValueError: the row *** is late, sent to https://ann:***@host (" in text
    assert text.endswith("*** was refused")
    assert text.count(name) == 0
