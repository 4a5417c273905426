"""The status of the project, and the server's health."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tidemill.app import serialization
from tidemill.errors import EngineLost
from tidemill.model.access import UserRole
from tidemill.model.codec import Json
from tidemill.runtime.freshness.staleness import StalenessMeasure
from tidemill.runtime.inspect import status as project_status
from tidemill.server.dependencies import IncludeStates, Mill, require_role
from tidemill.server.error_handlers import build_responses
from tidemill.wire import schemas

router = APIRouter(tags=["status"])
health = APIRouter(tags=["status"], responses=build_responses(500, 503))


@router.get("/status", response_model=schemas.StatusDocument, dependencies=[require_role(UserRole.VIEWER)])
def get_status(mill: Mill, every: IncludeStates = False) -> Json:
    """Show how fresh every channel is, which readers lag behind, and which runs are active."""
    status = project_status.read_status(mill.catalog)
    return serialization.serialize_status(status if every else project_status.hide_state_channels(status))


@router.get("/staleness", response_model=schemas.StalenessDocument, dependencies=[require_role(UserRole.VIEWER)])
def get_staleness(
    mill: Mill,
    measure: Annotated[
        StalenessMeasure, Query(description="age: the age of the newest version that a table reflects.")
    ] = (StalenessMeasure.STALENESS),
    minutes: Annotated[float, Query(description="The length of the period until now.", gt=0, le=60 * 24 * 366)] = 60.0,
) -> Json:
    """Show how stale every table was over time, and all of them together, as far as blocks and events are retained."""
    now = mill.catalog.read_time()
    return serialization.serialize_staleness(mill.history(), measure, now - 60 * minutes, now)


@health.get("/healthz", response_model=schemas.HealthDocument)
def get_health(mill: Mill) -> Json:
    """Check that the server responds, its catalog can be read and Spark is available. Needs no token."""
    mill.catalog.list_workflows()
    problem = mill.engine.report_health().problem
    if problem is not None:
        raise EngineLost(problem)
    return {"status": "ok"}
