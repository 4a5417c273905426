"""What a run says about itself."""

from __future__ import annotations

import threading
import time

LONGEST = 256 * 1024
"""Characters kept of a run's log: its beginning and its end; what is cut between them is counted."""


class RunLog:
    """Collects lines from the runtime, the task's prints and a program's output."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._lock = threading.Lock()

    def write_line(self, text: str) -> None:
        """A line of the runtime's own, with the time."""
        self.write(f"[{time.strftime('%H:%M:%S', time.gmtime())}] {text}\n")

    def write(self, text: str) -> int:
        with self._lock:
            self._parts.append(text)
        return len(text)

    @property
    def text(self) -> str:
        """The log, shortened in the middle if it is very long."""
        with self._lock:
            whole = "".join(self._parts)
        if len(whole) <= LONGEST:
            return whole
        half = LONGEST // 2
        return f"{whole[:half]}\n… {len(whole) - LONGEST} characters left out …\n{whole[-half:]}"
