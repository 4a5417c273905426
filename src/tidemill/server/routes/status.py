"""How everything stands, and whether the server is well."""

from __future__ import annotations

from fastapi import APIRouter

from tidemill import documents
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.runtime import status as standing
from tidemill.server.declared import answers
from tidemill.server.doors import Mill, needs
from tidemill.server.parameters import Every
from tidemill.wire import shapes

router = APIRouter(tags=["status"])
health = APIRouter(tags=["status"], responses=answers(500, 503))


@router.get("/status", response_model=shapes.Status, dependencies=[needs(Role.VIEWER)])
def status(mill: Mill, every: Every = False) -> Json:
    """Show how fresh every channel is, who is behind, and what runs."""
    found = standing.status(mill.catalog)
    return documents.status(found if every else standing.without_states(found))


@health.get("/healthz", response_model=shapes.Health)
def healthz(mill: Mill) -> Json:
    """Say whether the server answers and its catalog can be read. Needs no token."""
    mill.catalog.workflows()
    return {"status": "ok"}
