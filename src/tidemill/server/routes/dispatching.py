"""The dispatching of due runs: triggers, servers, configuration, statistics, and the same figures as metrics."""

from dataclasses import asdict

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from tidemill.app import inspection
from tidemill.app.wiring import Tidemill
from tidemill.runtime.inspect.statistics import compute_statistics as figures
from tidemill.runtime.inspect.statistics import render_metrics
from tidemill.runtime.inspect.status import read_status
from tidemill.runtime.maintenance.service import is_paused
from tidemill.server.dependencies import AS_ADMIN, AS_VIEWER, Limit, Mill, Number, OfFlow, Wake
from tidemill.server.error_handlers import build_responses
from tidemill.wire import server_schemas

triggers = APIRouter(tags=["triggers"], dependencies=AS_VIEWER)


@triggers.get("/triggers")
def list_triggers(mill: Mill, flow: OfFlow = None) -> server_schemas.TriggerListDocument:
    """List the triggers of flows, when they are due, and their pending input."""
    return server_schemas.TriggerListDocument.build(triggers=mill.catalog.triggers.list(flow))


@triggers.get("/triggers/{trigger}", responses=build_responses(404))
def get_trigger(mill: Mill, trigger: Number) -> server_schemas.TriggerDocument:
    """Show one trigger: its condition, when it is due, and its pending input."""
    return server_schemas.TriggerDocument.model_validate(inspection.find_trigger(mill.catalog, trigger))


@triggers.get("/firings")
def list_firings(mill: Mill, flow: OfFlow = None, limit: Limit = 20) -> server_schemas.FiringListDocument:
    """List the triggers that fired, the newest first, and the runs that handle them."""
    return server_schemas.FiringListDocument.build(firings=mill.catalog.triggers.list_firings(flow, limit))


@triggers.get("/servers")
def list_servers(mill: Mill) -> server_schemas.ServerListDocument:
    """List the servers, and which of them leads."""
    return server_schemas.ServerListDocument.build(servers=mill.catalog.servers.list())


router = APIRouter(tags=["dispatching"])


@router.get("/statistics", dependencies=AS_VIEWER)
def get_statistics(mill: Mill) -> server_schemas.StatisticsDocument:
    """Show for each task the cost of a run, the ratio of output to input, its rates, and its pending input."""
    return server_schemas.StatisticsDocument.build(tasks=figures(mill.catalog, read_status(mill.catalog)))


@router.get("/dispatching", dependencies=AS_VIEWER)
def get_dispatching(mill: Mill) -> server_schemas.DispatchConfigDocument:
    """Show how servers order the due runs."""
    return _serialize_config(mill)


@router.put("/dispatching", responses=build_responses(422), dependencies=AS_ADMIN)
def change_dispatching(
    mill: Mill, wake: Wake, body: server_schemas.DispatchOverrideDocument
) -> server_schemas.DispatchConfigDocument:
    """Change how all servers order runs; omitted or null values go back to each server's settings."""
    overrides = body.model_dump()
    mill.dispatch_config.apply_overrides({name: value for name, value in overrides.items() if value is not None})
    mill.catalog.servers.override_settings(overrides)
    wake()
    return _serialize_config(mill)


@router.get("/metrics", response_class=PlainTextResponse, dependencies=AS_VIEWER)
def get_metrics(mill: Mill) -> Response:
    """The figures of tasks, tables and runs, in the Prometheus text format."""
    status = read_status(mill.catalog)
    paused = is_paused(mill.catalog.servers)
    text = render_metrics(
        status, figures(mill.catalog, status), mill.history(), mill.catalog.read_time(), paused=paused
    )
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


def _serialize_config(mill: Tidemill) -> server_schemas.DispatchConfigDocument:
    overrides = mill.dispatch_config.select_overrides(mill.catalog.servers.read_setting_overrides())
    config = mill.dispatch_config.apply_overrides(overrides)
    return server_schemas.DispatchConfigDocument.build(**asdict(config), overrides=overrides)
