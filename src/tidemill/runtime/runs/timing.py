"""How long work took, which is what its cost is learnt from."""

from __future__ import annotations

from time import monotonic

from tidemill.ports.engine import Engine


class Timer:
    """Measures seconds from its making on, without those in which the engine was being started.

    Whether a run finds the engine running is a matter of chance, and says nothing about what its work costs.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._began = self._now()

    @property
    def seconds(self) -> float:
        return max(0.0, self._now() - self._began)

    def _now(self) -> float:
        return monotonic() - self._engine.start_seconds
