"""How everything stands, and whether the server is well."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tidemill.app import serialization
from tidemill.errors import EngineLost
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.runtime.freshness.staleness import Measure
from tidemill.runtime.inspect import status as standing
from tidemill.server.dependencies import Every, Mill, needs
from tidemill.server.error_handlers import answers
from tidemill.wire import schemas

router = APIRouter(tags=["status"])
health = APIRouter(tags=["status"], responses=answers(500, 503))


@router.get("/status", response_model=schemas.Status, dependencies=[needs(Role.VIEWER)])
def status(mill: Mill, every: Every = False) -> Json:
    """Show how fresh every channel is, who is behind, and what runs."""
    found = standing.status(mill.catalog)
    return serialization.status(found if every else standing.without_states(found))


@router.get("/staleness", response_model=schemas.Staleness, dependencies=[needs(Role.VIEWER)])
def staleness(
    mill: Mill,
    measure: Annotated[Measure, Query(description="age: how old the newest version is that a table reflects.")] = (
        Measure.STALENESS
    ),
    minutes: Annotated[float, Query(description="So far back.", gt=0, le=60 * 24 * 366)] = 60.0,
) -> Json:
    """Show how stale every table was over time, and all of them together, as far as blocks and events are kept."""
    now = mill.catalog.now()
    return serialization.staleness(mill.history(), measure, now - 60 * minutes, now)


@health.get("/healthz", response_model=schemas.Health)
def healthz(mill: Mill) -> Json:
    """Say whether the server answers, its catalog can be read and Spark is there. Needs no token."""
    mill.catalog.workflows()
    problem = mill.engine.health().problem
    if problem is not None:
        raise EngineLost(problem)
    return {"status": "ok"}
