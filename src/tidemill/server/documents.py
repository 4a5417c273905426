"""The door to the documents that the command line prints: the API answers with the same.

They stand in the command line's room for now, though both it and the server are above them. Nothing else here knows.
"""

from __future__ import annotations

from tidemill.cells import to_json as cell
from tidemill.documents import (
    block,
    channel,
    event,
    firing,
    flow,
    reading,
    run,
    schema,
    server,
    status,
    step,
    trace,
    trigger,
    workflow,
)
from tidemill.model.instant import iso

__all__ = [
    "block",
    "cell",
    "channel",
    "event",
    "firing",
    "flow",
    "iso",
    "reading",
    "run",
    "schema",
    "server",
    "status",
    "step",
    "trace",
    "trigger",
    "workflow",
]
