"""The status of the project, and the server's health."""

from typing import Annotated

from fastapi import APIRouter, Query

from tidemill.app import inspection, serialization
from tidemill.errors import EngineLost
from tidemill.runtime.freshness.staleness import StalenessMeasure
from tidemill.server.dependencies import AS_VIEWER, IncludeStates, Mill, Name
from tidemill.server.error_handlers import build_responses
from tidemill.wire import schemas

router = APIRouter(tags=["status"])
health = APIRouter(tags=["status"], responses=build_responses(500, 503))


@router.get("/status", dependencies=AS_VIEWER)
def get_status(mill: Mill, every: IncludeStates = False) -> schemas.StatusDocument:
    """Show how fresh every channel is, which readers lag behind, and which runs are active."""
    status = inspection.read_service_status(mill.catalog, mill.quotas.quotas, every=every)
    return schemas.StatusDocument.model_validate(status)


@router.get("/freshness-targets", dependencies=AS_VIEWER)
def list_freshness_targets(mill: Mill) -> schemas.TargetListDocument:
    """List the freshness targets, and whether they are met."""
    channels = inspection.read_visible_status(mill.catalog, every=True).channels
    return schemas.TargetListDocument.build(freshness_targets=[c for c in channels if c.target_status is not None])


@router.get("/freshness-targets/{name}", dependencies=AS_VIEWER, responses=build_responses(404))
def get_freshness_target(mill: Mill, name: Name) -> schemas.ChannelTargetDocument:
    """Show the freshness target of a channel, and whether it is met."""
    return schemas.ChannelTargetDocument.model_validate(inspection.find_target_status(mill.catalog, name))


@router.get("/staleness", dependencies=AS_VIEWER)
def get_staleness(
    mill: Mill,
    measure: Annotated[
        StalenessMeasure, Query(description="age: the age of the newest version that a table reflects.")
    ] = (StalenessMeasure.STALENESS),
    minutes: Annotated[float, Query(description="The length of the period until now.", gt=0, le=60 * 24 * 366)] = 60.0,
) -> schemas.StalenessDocument:
    """Show how stale every table was over time, and all of them together, as far as blocks and events are retained."""
    now = mill.catalog.read_time()
    return serialization.serialize_staleness(mill.history(), measure, now - 60 * minutes, now)


@health.get("/healthz")
def get_health(mill: Mill) -> schemas.HealthDocument:
    """Check that the server can serve: its catalog can be read and Spark is available. Needs no token.

    A server that serves although something is wrong with it is degraded, which is no error.
    """
    mill.catalog.workflows.list()
    engine_health = mill.engine.report_health()
    if engine_health.problem is not None:
        raise EngineLost(engine_health.problem)
    return schemas.HealthDocument.model_validate(engine_health)


@health.get("/livez")
def get_liveness(mill: Mill) -> schemas.HealthDocument:
    """Check that the server responds, even while it cannot serve. Needs no token."""
    return schemas.HealthDocument.model_validate(mill.engine.report_health())
