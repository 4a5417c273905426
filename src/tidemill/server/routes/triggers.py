"""Triggers of flows, their firings, and the servers that execute runs."""

from __future__ import annotations

from fastapi import APIRouter

from tidemill.server.dependencies import AS_VIEWER, Limit, Mill, OfFlow
from tidemill.wire import server_schemas

router = APIRouter(tags=["triggers"], dependencies=AS_VIEWER)


@router.get("/triggers")
def list_triggers(mill: Mill, flow: OfFlow = None) -> server_schemas.TriggerListDocument:
    """List the triggers of flows, when they are due, and their pending input."""
    return server_schemas.TriggerListDocument.build(triggers=mill.catalog.list_triggers(flow))


@router.get("/firings")
def list_firings(mill: Mill, flow: OfFlow = None, limit: Limit = 20) -> server_schemas.FiringListDocument:
    """List the triggers that fired, the newest first, and the runs that handle them."""
    return server_schemas.FiringListDocument.build(firings=mill.catalog.list_firings(flow, limit))


@router.get("/servers")
def list_servers(mill: Mill) -> server_schemas.ServerListDocument:
    """List the servers, and which of them leads."""
    return server_schemas.ServerListDocument.build(servers=mill.catalog.list_servers())
