"""An engine that is built on first use: commands that only show something neither import nor start Spark."""

import threading
from collections.abc import Callable
from typing import Any

from tidemill.ports.engine import Engine


class DeferredEngine:
    """Builds the engine when one of its attributes is first used, and passes them on. Thread-safe."""

    def __init__(self, build: Callable[[], Engine]) -> None:
        self._build = build
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if self._engine is None:
                self._engine = self._build()
        return getattr(self._engine, name)

    def stop(self) -> None:
        if self._engine is not None:
            self._engine.stop()
