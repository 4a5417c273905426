"""Maintenance as commands, API and page show and control it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.model.run import ACTIVE_STATES, Run, RunKind
from tidemill.runtime.maintenance.service import OVERRIDE, PAUSED, is_paused
from tidemill.runtime.maintenance.vacuum import VacuumService
from tidemill.wire import server_schemas as schemas

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def read_maintenance(mill: Tidemill) -> schemas.MaintenanceDocument:
    """Whether maintenance is automatic and paused, the active compactions, and those that are due."""
    return schemas.MaintenanceDocument.build(
        automatic=mill.settings.maintenance.automatic,
        paused=is_paused(mill.catalog.servers),
        active=list_active_compactions(mill),
        channels=[(name, mill.compaction(name)) for name in list_written_channels(mill)],
    )


def list_active_compactions(mill: Tidemill) -> list[Run]:
    runs = mill.catalog.runs
    return [r for state in ACTIVE_STATES for r in runs.list(state=state, kind=RunKind.COMPACTION)]


def list_written_channels(mill: Tidemill) -> list[str]:
    """List every channel that has a schema: one without has no data yet."""
    return [c.channel.name for c in mill.catalog.channels.list() if c.channel.schema is not None]


def pause_maintenance(mill: Tidemill, *, paused: bool) -> None:
    """Pause or resume maintenance on all servers; a step in progress continues to its end."""
    mill.catalog.servers.override_settings({OVERRIDE: PAUSED if paused else None})


def run_maintenance(mill: Tidemill) -> schemas.MaintenanceResultDocument:
    """Do the maintenance that is due on all channels, even if it is paused."""
    return schemas.MaintenanceResultDocument.model_validate(mill.run_maintenance())


def collect_garbage(mill: Tidemill, retain: str | None, grace: str | None, *, scan: bool) -> schemas.CollectionDocument:
    """Garbage-collect, after a scan of the whole store if `scan`."""
    scanned = VacuumService(mill.executor).scan_store() if scan else None
    collected = schemas.GarbageCountsDocument.model_validate(mill.collect(retain, grace))
    return schemas.CollectionDocument.extend(collected, scan=scanned)
