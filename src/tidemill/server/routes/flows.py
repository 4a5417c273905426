"""Bound flows, and requests for their runs."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from tidemill.app import serialization
from tidemill.app.wiring import Tidemill
from tidemill.errors import NotFound
from tidemill.model.access import UserRole
from tidemill.model.channel import ChannelRole as ChannelRole
from tidemill.model.codec import Json
from tidemill.runtime.inspect.status import FlowStatus, read_status
from tidemill.runtime.runs.requests import request_flow_run
from tidemill.server.dependencies import FlowName, Mill, Wake, require_role, resolve_flow_workflow
from tidemill.server.error_handlers import build_responses
from tidemill.wire import explain_schemas, schemas

router = APIRouter(tags=["flows"], responses=build_responses(404))
_VIEWER = [require_role(UserRole.VIEWER)]


@router.get("/flows", response_model=schemas.FlowListDocument, dependencies=_VIEWER)
def list_flows(mill: Mill) -> Json:
    """List the bound flows with their tasks, the channels that these read and write, and their last runs."""
    return {"flows": [serialization.serialize_flow(f) for f in read_status(mill.catalog).flows]}


@router.get("/flows/{name}", response_model=schemas.FlowDetailsDocument, dependencies=_VIEWER)
def get_flow(mill: Mill, name: FlowName) -> Json:
    """Show one bound flow."""
    return {"flow": serialization.serialize_flow(_find_flow_status(mill, name))}


@router.get("/flows/{name}/explain", response_model=explain_schemas.ExplanationListDocument, dependencies=_VIEWER)
def explain_flow(mill: Mill, name: FlowName) -> Json:
    """Show how each table that a flow writes is refreshed, and what a run would do now."""
    states = {c.channel.name for c in mill.catalog.list_channels() if c.channel.role is ChannelRole.STATE}
    tables = dict.fromkeys(c for task in _find_flow_status(mill, name).tasks for c, _ in task.writes if c not in states)
    return {"flow": name, "tables": [asdict(mill.explain(table)) for table in tables]}


@router.post(
    "/flows/{name}/runs",
    status_code=202,
    response_model=schemas.RunDocument,
    responses=build_responses(409),
    dependencies=[require_role(UserRole.OPERATOR, resolve_workflow=resolve_flow_workflow)],
)
def request_run(mill: Mill, wake: Wake, name: FlowName, backfill: bool = False) -> Json:
    """Request a run of a flow; a server executes it as soon as possible, a backfill on a separate track."""
    requested = request_flow_run(mill.catalog, name, backfill=backfill)
    wake()
    return serialization.serialize_run(requested)


def _find_flow_status(mill: Tidemill, name: str) -> FlowStatus:
    flows = read_status(mill.catalog).flows
    flow = next((f for f in flows if f.name == name), None)
    if flow is None:
        names = ", ".join(f.name for f in flows)
        raise NotFound(f"there is no bound flow {name!r}; known are {names or 'none'}")
    return flow
