"""The log of a run."""

import threading
import time

from tidemill.model.redaction import NO_SECRETS, Redactor
from tidemill.model.run import StepReport

MAX_LOG_CHARACTERS = 256 * 1024
"""Maximum characters of a run's log: its beginning and its end are kept, and the cut characters are counted."""


class RunLog:
    """Collects lines from the runtime, the task's prints, a program's output, and the full text of errors.

    It may contain values of rows, but no secrets that the redactor knows.
    """

    def __init__(self, redactor: Redactor = NO_SECRETS) -> None:
        self._redactor = redactor
        self._parts: list[str] = []
        self._steps: list[StepReport] = []
        self._lock = threading.Lock()

    def record_step(self, step: StepReport) -> None:
        """Record where a step of the current task ran."""
        with self._lock:
            self._steps.append(step)

    def take_steps(self) -> list[StepReport]:
        """The steps recorded since the last call."""
        with self._lock:
            taken, self._steps = self._steps, []
        return taken

    def write_line(self, text: str) -> None:
        """Write a line of the runtime, with a timestamp."""
        self.write(f"[{time.strftime('%H:%M:%S', time.gmtime())}] {text}\n")

    def write(self, text: str) -> int:
        with self._lock:
            self._parts.append(text)
        return len(text)

    @property
    def text(self) -> str:
        """The log without secrets, and with its middle cut out if it is very long."""
        with self._lock:
            text = self._redactor.redact("".join(self._parts))
        if len(text) <= MAX_LOG_CHARACTERS:
            return text
        half = MAX_LOG_CHARACTERS // 2
        return f"{text[:half]}\n… {len(text) - MAX_LOG_CHARACTERS} characters left out …\n{text[-half:]}"
