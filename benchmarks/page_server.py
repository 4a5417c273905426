"""The API and the page of a project, in a process that executes no runs."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from pathlib import Path

from tidemill.app.settings import ApiSettings, load_settings
from tidemill.app.wiring import Tidemill
from tidemill.cli.main import GARBAGE_COLLECTION
from tidemill.cli.web import build_listener


def main(directory: str, port: str) -> None:
    gc.set_threshold(*GARBAGE_COLLECTION)  # as for every command
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    settings = load_settings(Path(directory)).model_copy(update={"api": ApiSettings(port=int(port))})
    with Tidemill(Path(directory), settings) as mill, build_listener(mill, stopping.clear):
        stopping.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
