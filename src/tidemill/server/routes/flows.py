"""Bound flows, and asking for a run of one."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from tidemill.app import serialization
from tidemill.app.wiring import Tidemill
from tidemill.errors import NotFound
from tidemill.model.access import Role
from tidemill.model.channel import Role as ChannelRole
from tidemill.model.codec import Json
from tidemill.runtime.inspect.status import FlowStatus, status
from tidemill.runtime.runs.requests import ask
from tidemill.server.dependencies import FlowName, Mill, Wake, flows_workflow, needs
from tidemill.server.error_handlers import answers
from tidemill.wire import explain_schemas, schemas

router = APIRouter(tags=["flows"], responses=answers(404))
_VIEWER = [needs(Role.VIEWER)]


@router.get("/flows", response_model=schemas.Flows, dependencies=_VIEWER)
def flows(mill: Mill) -> Json:
    """List the bound flows with their tasks, what these read and write, and their last runs."""
    return {"flows": [serialization.flow(f) for f in status(mill.catalog).flows]}


@router.get("/flows/{name}", response_model=schemas.OneFlow, dependencies=_VIEWER)
def flow(mill: Mill, name: FlowName) -> Json:
    """Show one bound flow."""
    return {"flow": serialization.flow(_status(mill, name))}


@router.get("/flows/{name}/explain", response_model=explain_schemas.Explanations, dependencies=_VIEWER)
def explain(mill: Mill, name: FlowName) -> Json:
    """Show how each table that a flow writes is kept fresh, and what a run would do now."""
    states = {c.channel.name for c in mill.catalog.channels() if c.channel.role is ChannelRole.STATE}
    written = dict.fromkeys(c for task in _status(mill, name).tasks for c, _ in task.writes if c not in states)
    return {"flow": name, "tables": [asdict(mill.explain(table)) for table in written]}


@router.post(
    "/flows/{name}/runs",
    status_code=202,
    response_model=schemas.Run,
    responses=answers(409),
    dependencies=[needs(Role.OPERATOR, of=flows_workflow)],
)
def request_run(mill: Mill, wake: Wake, name: FlowName, backfill: bool = False) -> Json:
    """Ask for a run of a flow; a server executes it as soon as it can, a backfill on a track of its own."""
    asked = ask(mill.catalog, name, backfill=backfill)
    wake()
    return serialization.run(asked)


def _status(mill: Tidemill, name: str) -> FlowStatus:
    known = status(mill.catalog).flows
    found = next((f for f in known if f.name == name), None)
    if found is None:
        listed = ", ".join(f.name for f in known)
        raise NotFound(f"there is no bound flow {name!r}; known are {listed or 'none'}")
    return found
