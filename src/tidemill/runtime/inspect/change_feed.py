"""A tap: what is new on a channel, for somebody who looks from outside the workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.model.change import Updates
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.engine import Engine
from tidemill.runtime.runs.views import Views


@dataclass(slots=True)
class Tap:
    """Remembers how far it has read. It holds nothing back: what is collected before it is read, is not seen.

    What is new comes as the channel gives its changes: added rows, or rows with `_count` or `_deleted`.
    """

    catalog: CatalogReader
    engine: Engine
    updates: Mapping[str, Updates]
    channel: str
    at: int  # the number of the last slot that was read

    def new(self) -> Any:
        """What is new since it was last asked, as a frame of the engine's own, to be filtered at will."""
        head = self.catalog.channel(self.channel).head.seq
        view = Views(self.catalog, self.updates).change(self.channel, self.at, head)
        self.at = head
        return self.engine.frame(view)
