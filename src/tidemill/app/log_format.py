"""The format of a server's log: full texts, without secrets."""

import logging
import sys

from tidemill.model.redaction import Redactor

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"

_QUIET_LIBRARIES = ("py4j", "uvicorn", "alembic")


class RedactingFormatter(logging.Formatter):
    """Formats records completely, including stack traces, and removes secrets from the result."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(LOG_FORMAT)
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.redact(super().format(record))


def configure_logging(redactor: Redactor) -> None:
    """Log to standard error, unless the process has configured logging already."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter(redactor))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for name in _QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)
