"""The application: settings, workflow files, and the wiring of catalog, block store and engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill

__all__ = ["Tidemill"]


def __getattr__(name: str) -> object:
    """Import `Tidemill` lazily: some commands only read settings and need neither Spark nor SQL."""
    if name == "Tidemill":
        from tidemill.app.wiring import Tidemill  # noqa: PLC0415

        return Tidemill
    raise AttributeError(f"module 'tidemill.app' has no attribute {name!r}")
