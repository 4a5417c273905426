"""Triggers of flows, their firings, and the servers that execute runs."""

from __future__ import annotations

from fastapi import APIRouter

from tidemill.app import serialization
from tidemill.model.access import UserRole
from tidemill.model.codec import Json
from tidemill.server.dependencies import Limit, Mill, OfFlow, require_role
from tidemill.wire import server_schemas

router = APIRouter(tags=["triggers"], dependencies=[require_role(UserRole.VIEWER)])


@router.get("/triggers", response_model=server_schemas.TriggerListDocument)
def list_triggers(mill: Mill, flow: OfFlow = None) -> Json:
    """List the triggers of flows, when they are due, and their pending input."""
    return {"triggers": [serialization.serialize_trigger(t) for t in mill.catalog.list_triggers(flow)]}


@router.get("/firings", response_model=server_schemas.FiringListDocument)
def list_firings(mill: Mill, flow: OfFlow = None, limit: Limit = 20) -> Json:
    """List the triggers that fired, the newest first, and the runs that handle them."""
    return {"firings": [serialization.serialize_firing(f) for f in mill.catalog.list_firings(flow, limit)]}


@router.get("/servers", response_model=server_schemas.ServerListDocument)
def list_servers(mill: Mill) -> Json:
    """List the servers, and which of them leads."""
    return {"servers": [serialization.serialize_server(s) for s in mill.catalog.list_servers()]}
