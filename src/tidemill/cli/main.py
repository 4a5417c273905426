"""The start of the `tidemill` program."""

import gc
from collections.abc import Sequence
from importlib import import_module

GARBAGE_COLLECTION = (100_000, 20, 100)
"""Thresholds of the search for unreachable cycles. By default it takes a fifth of the time of a command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; ends the process with its exit code."""
    gc.set_threshold(*GARBAGE_COLLECTION)  # before the commands are imported
    import_module("tidemill.cli.program").main(arguments)
