"""The limits of the engine, from the settings and the memory of the machine."""

import os
from contextlib import suppress
from pathlib import Path

from tidemill.app.settings import EngineSettings, read_fields
from tidemill.model.units import parse_size
from tidemill.ports.engine import EngineLimits

_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
_DRIVER_SHARE = 4
"""The default share of the memory for rows on the driver is one in so many; Spark's driver is in the same machine."""


def build_limits(settings: EngineSettings) -> EngineLimits:
    memory = compute_driver_memory() if settings.driver_memory is None else parse_size(settings.driver_memory)
    others = read_fields(EngineLimits, settings) | {"driver_memory": memory}
    return EngineLimits(is_local=settings.local == "auto", **others)


def compute_driver_memory() -> int:
    """The default for the bytes of rows on the driver."""
    return read_memory() // _DRIVER_SHARE


def read_memory() -> int:
    """The bytes of memory that this process may use: those of the machine, or of its container if that has fewer."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no container, or one without a limit ("max")
        available = min(available, int(_CONTAINER_LIMIT.read_text()))
    return available
