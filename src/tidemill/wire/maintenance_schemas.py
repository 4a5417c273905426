"""Documents about compaction, garbage collection and maintenance."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidemill.wire.document import ResponseDocument
from tidemill.wire.schemas import BlockDocument, RunDocument


class CompactedChannelDocument(ResponseDocument):
    channel: str
    block: Annotated[BlockDocument | None, Field(description="Its new base; null: there was nothing to merge.")]


class CompactionListDocument(ResponseDocument):
    compacted: list[CompactedChannelDocument]


class DueCompactionDocument(ResponseDocument):
    channel: str
    compaction: str | None  # whether it is due, with the reason


class MaintenanceDocument(ResponseDocument):
    automatic: bool
    paused: bool
    active: list[RunDocument]
    channels: list[DueCompactionDocument]


class StoreScanDocument(ResponseDocument):
    """Counts of a listing of the whole store."""

    attempts: int
    marked: int
    unknown: int


class GarbageCountsDocument(ResponseDocument):
    """Collected blocks, removed files, runs whose process had died, and files to be removed later."""

    blocks: int
    files: int
    reclaimed: int
    marked: int


class CollectionDocument(GarbageCountsDocument):
    scan: StoreScanDocument | None


class ExpiryCountsDocument(ResponseDocument):
    runs: int
    blocks: int


class MaintenanceResultDocument(ResponseDocument):
    """The maintenance that was due; a problem prevented a compaction or a removal."""

    minor_compactions: list[BlockDocument]
    major_compactions: list[BlockDocument]
    collected: GarbageCountsDocument
    expired: ExpiryCountsDocument
    problems: list[str]
