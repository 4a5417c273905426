"""What makes flows run, what fired, and who executes it."""

from __future__ import annotations

from fastapi import APIRouter

from tidemill.app import serialization
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.server.dependencies import Limit, Mill, OfFlow, needs
from tidemill.wire import server_schemas

router = APIRouter(tags=["triggers"], dependencies=[needs(Role.VIEWER)])


@router.get("/triggers", response_model=server_schemas.Triggers)
def triggers(mill: Mill, flow: OfFlow = None) -> Json:
    """List each condition that makes a flow run, when it is due, and what waits for it."""
    return {"triggers": [serialization.trigger(t) for t in mill.catalog.triggers(flow)]}


@router.get("/firings", response_model=server_schemas.Firings)
def firings(mill: Mill, flow: OfFlow = None, limit: Limit = 20) -> Json:
    """List the triggers that fired, the newest first, and the runs that handle them."""
    return {"firings": [serialization.firing(f) for f in mill.catalog.firings(flow, limit)]}


@router.get("/servers", response_model=server_schemas.Servers)
def servers(mill: Mill) -> Json:
    """List the servers, and which of them leads."""
    return {"servers": [serialization.server(s) for s in mill.catalog.servers()]}
