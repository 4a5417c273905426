"""What makes flows run, what fired, and who executes it."""

from __future__ import annotations

from fastapi import APIRouter

from tidemill import documents
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.server.doors import Mill, needs
from tidemill.server.parameters import Limit, OfFlow
from tidemill.wire import serving

router = APIRouter(tags=["triggers"], dependencies=[needs(Role.VIEWER)])


@router.get("/triggers", response_model=serving.Triggers)
def triggers(mill: Mill, flow: OfFlow = None) -> Json:
    """List each condition that makes a flow run, when it is due, and what waits for it."""
    return {"triggers": [documents.trigger(t) for t in mill.catalog.triggers(flow)]}


@router.get("/firings", response_model=serving.Firings)
def firings(mill: Mill, flow: OfFlow = None, limit: Limit = 20) -> Json:
    """List the triggers that fired, the newest first, and the runs that handle them."""
    return {"firings": [documents.firing(f) for f in mill.catalog.firings(flow, limit)]}


@router.get("/servers", response_model=serving.Servers)
def servers(mill: Mill) -> Json:
    """List the servers, and which of them leads."""
    return {"servers": [documents.server(s) for s in mill.catalog.servers()]}
