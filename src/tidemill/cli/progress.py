"""Progress of long work: a bar on standard error, if that is a terminal and the work takes a while."""

from __future__ import annotations

import threading

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

SHOW_AFTER = 1.0
"""Seconds after which the bar is shown."""


class ProgressBar:
    """Called with a description and the fraction done; shows the bar once the work has taken a while.

    A timer shows it, and not the next call: a task that takes an hour reports only its beginning.
    """

    def __init__(self, console: Console, show_after: float = SHOW_AFTER) -> None:
        self.shown = threading.Event()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("", total=1.0)
        self._timer = threading.Timer(show_after, self._show_bar) if console.is_terminal else None

    def __call__(self, description: str, fraction: float) -> None:
        self._progress.update(self._task, description=description, completed=fraction)

    def __enter__(self) -> ProgressBar:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self.shown.is_set():
            self._progress.stop()

    def _show_bar(self) -> None:
        self._progress.start()
        self.shown.set()
