"""The format of a server's log: with stack traces, without secrets and values of rows."""

import logging
import sys
import traceback
from typing import Any

from tidemill.model.error_summary import summarize_error
from tidemill.model.redaction import Redactor

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"

_QUIET_LIBRARIES = ("py4j", "uvicorn", "alembic")


class RedactingFormatter(logging.Formatter):
    """Formats records with the stack traces and summaries of errors, and removes secrets from the result."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(LOG_FORMAT)
        self._redactor = redactor

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """The error and its causes, the first cause first. Values of rows are removed from their texts."""
        error, parts = ei[1], list[str]()
        while error is not None:
            parts.append("".join(traceback.format_tb(error.__traceback__)) + summarize_error(error))
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "\n".join(reversed(parts))

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.redact(super().format(record))


def configure_logging(redactor: Redactor) -> None:
    """Log to standard error, unless the process has configured logging already."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter(redactor))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for name in _QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)
