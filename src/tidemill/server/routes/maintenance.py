"""Compaction, garbage collection and maintenance. All but compaction need an admin: they affect every workflow.

A response is sent when the work is done.
"""

from typing import Annotated

from fastapi import APIRouter, Query

from tidemill.app import maintenance
from tidemill.server.dependencies import AS_ADMIN, AS_CHANNEL_OPERATOR, AS_VIEWER, Mill, Name
from tidemill.server.error_handlers import build_responses
from tidemill.wire import server_schemas as schemas

router = APIRouter(tags=["maintenance"])

Retain = Annotated[
    str | None, Query(description="How long contents stay readable, such as 7 days; default: only now.", max_length=100)
]
Grace = Annotated[
    str | None, Query(description="Minimum age of marks on files, such as 0s; default: the setting.", max_length=100)
]
Scan = Annotated[bool, Query(description="List the whole store first, and mark unreferenced files that runs left.")]


@router.post("/channels/{name}/compact", responses=build_responses(404, 409), dependencies=AS_CHANNEL_OPERATOR)
def compact_channel(mill: Mill, name: Name) -> schemas.CompactedChannelDocument:
    """Merge a channel's deltas into a base, so that reads are cheap. Its content does not change."""
    return schemas.CompactedChannelDocument.build(channel=name, block=mill.compact(name))


@router.get("/maintenance", dependencies=AS_VIEWER)
def get_maintenance(mill: Mill) -> schemas.MaintenanceDocument:
    """Show whether maintenance is automatic, which compactions are running and which are due."""
    return maintenance.read_maintenance(mill)


@router.post("/maintenance/pause", dependencies=AS_ADMIN)
def pause_maintenance(mill: Mill) -> schemas.MaintenanceDocument:
    """Start no compaction or collection on any server; a step in progress continues to its end."""
    maintenance.pause_maintenance(mill, paused=True)
    return maintenance.read_maintenance(mill)


@router.post("/maintenance/resume", dependencies=AS_ADMIN)
def resume_maintenance(mill: Mill) -> schemas.MaintenanceDocument:
    """Continue maintenance after a pause."""
    maintenance.pause_maintenance(mill, paused=False)
    return maintenance.read_maintenance(mill)


@router.post("/maintenance/run", dependencies=AS_ADMIN)
def run_maintenance(mill: Mill) -> schemas.MaintenanceResultDocument:
    """Do the maintenance that is due on all channels now, also while it is paused."""
    return maintenance.run_maintenance(mill)


@router.post("/maintenance/collect", responses=build_responses(400, 409), dependencies=AS_ADMIN)
def collect_garbage(
    mill: Mill, retain: Retain = None, grace: Grace = None, scan: Scan = False
) -> schemas.CollectionDocument:
    """Garbage-collect blocks that no reader needs, and remove files whose grace period is over."""
    return maintenance.collect_garbage(mill, retain, grace, scan=scan)
