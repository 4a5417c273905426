"""Workflows: what is registered, registering another, what would change, and letting one pause or go first."""

from __future__ import annotations

from fastapi import APIRouter, Response

from tidemill.app import serialization
from tidemill.app.registry import WorkflowDocument
from tidemill.app.wiring import Tidemill
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.server.dependencies import Mill, Wake, WorkflowName, documents_workflow, itself, needs
from tidemill.server.error_handlers import answers
from tidemill.wire import server_schemas

router = APIRouter(tags=["workflows"])
_VIEWER = [needs(Role.VIEWER)]
_OPERATOR = [needs(Role.OPERATOR, of=itself)]
_ADMIN = [needs(Role.ADMIN)]


@router.get("/workflows", response_model=server_schemas.Workflows, dependencies=_VIEWER)
def workflows(mill: Mill) -> Json:
    """List the workflows that are registered."""
    return {"workflows": [serialization.workflow(w) for w in mill.catalog.workflows()]}


@router.post(
    "/workflows",
    response_model=server_schemas.Steps,
    responses=answers(400, 409, 413),
    dependencies=[needs(Role.OPERATOR, of=documents_workflow)],
)
def register(mill: Mill, wake: Wake, document: WorkflowDocument) -> Json:
    """Register a workflow of SQL tables that comes as a document; the answer says what changed."""
    steps = mill.register(document.model_dump(mode="json"))
    wake()
    return {"steps": [serialization.step(s) for s in steps]}


@router.delete("/workflows/{name}", status_code=204, responses=answers(404, 409), dependencies=_OPERATOR)
def remove(mill: Mill, name: WorkflowName) -> Response:
    """Take a workflow that came as a document out of use; its data stay."""
    mill.remove(name)
    return Response(status_code=204)


@router.get("/plan", response_model=server_schemas.Plan, dependencies=_VIEWER)
def plan(mill: Mill) -> Json:
    """Show what `apply` would change, and promises that history says cannot be kept."""
    return {"steps": [serialization.step(s) for s in mill.plan()], "doubts": list(mill.doubts())}


@router.post("/apply", response_model=server_schemas.Plan, responses=answers(409), dependencies=_ADMIN)
def apply(mill: Mill, wake: Wake) -> Json:
    """Register what the project's workflow files declare; the answer says what changed, and what is doubtful."""
    steps = mill.apply()
    wake()
    return {"steps": [serialization.step(s) for s in steps], "doubts": list(mill.doubts())}


@router.post(
    "/workflows/{name}/pause", response_model=server_schemas.Workflow, responses=answers(404), dependencies=_OPERATOR
)
def pause(mill: Mill, name: WorkflowName) -> Json:
    """Let servers run nothing of a workflow; data is still accepted, and counts when it goes on."""
    mill.catalog.pause(name, paused=True)
    return _one(mill, name)


@router.post(
    "/workflows/{name}/resume", response_model=server_schemas.Workflow, responses=answers(404), dependencies=_OPERATOR
)
def resume(mill: Mill, wake: Wake, name: WorkflowName) -> Json:
    """Let a paused workflow go on."""
    mill.catalog.pause(name, paused=False)
    wake()
    return _one(mill, name)


@router.put(
    "/workflows/{name}/priority",
    response_model=server_schemas.Workflow,
    responses=answers(400, 404, 413),
    dependencies=_ADMIN,
)
def prioritise(mill: Mill, name: WorkflowName, wish: server_schemas.Priority) -> Json:
    """Say which workflow's runs go first where not all can run at once."""
    mill.catalog.prioritise(name, wish.priority)
    return _one(mill, name)


def _one(mill: Tidemill, name: str) -> Json:
    return next(serialization.workflow(w) for w in mill.catalog.workflows() if w.name == name)
