"""Workflows: listing, registering, planning changes, pausing and prioritising them."""

from fastapi import APIRouter, Response

from tidemill.app import inspection
from tidemill.app.registry import WorkflowDefinition
from tidemill.app.wiring import Tidemill
from tidemill.server import dependencies as deps
from tidemill.server.error_handlers import build_responses
from tidemill.wire import server_schemas

router = APIRouter(tags=["workflows"])


@router.get("/workflows", dependencies=deps.AS_VIEWER)
def list_workflows(mill: deps.Mill) -> server_schemas.WorkflowListDocument:
    """List the registered workflows."""
    return server_schemas.WorkflowListDocument.build(workflows=mill.catalog.workflows.list())


@router.post("/workflows", responses=build_responses(400, 409, 413), dependencies=deps.AS_DOCUMENT_DEVELOPER)
def register_workflow(
    mill: deps.Mill, wake: deps.Wake, document: WorkflowDefinition
) -> server_schemas.RegistrationStepsDocument:
    """Register a workflow of SQL tables from a document; the response lists the changes."""
    steps = mill.register(document.model_dump(mode="json"))
    wake()
    return server_schemas.RegistrationStepsDocument.build(steps=steps)


@router.delete(
    "/workflows/{name}", status_code=204, responses=build_responses(404, 409), dependencies=deps.AS_WORKFLOW_DEVELOPER
)
def remove_workflow(mill: deps.Mill, name: deps.WorkflowName) -> Response:
    """Unregister a workflow that was registered from a document; its data are retained."""
    mill.remove(name)
    return Response(status_code=204)


@router.get("/plan", dependencies=deps.AS_VIEWER)
def plan_changes(mill: deps.Mill) -> server_schemas.RegistrationPlanDocument:
    """Show what `apply` would change, and freshness targets that are infeasible according to past runs."""
    return server_schemas.RegistrationPlanDocument.build(
        steps=mill.plan(), infeasible_targets=mill.infeasible_targets()
    )


@router.post("/apply", responses=build_responses(409), dependencies=deps.AS_DEVELOPER)
def apply_changes(
    mill: deps.Mill, wake: deps.Wake, access: deps.TheAccess, caller: deps.TheCaller
) -> server_schemas.RegistrationPlanDocument:
    """Register the workflows of the project's files; the response lists the changes, and infeasible targets.

    The caller must be allowed to change all of them.
    """
    for workflow in mill.project.workflows:
        access.check_workflow_access(caller, workflow.name)
    steps = mill.apply()
    wake()
    return server_schemas.RegistrationPlanDocument.build(steps=steps, infeasible_targets=mill.infeasible_targets())


@router.post("/workflows/{name}/pause", responses=build_responses(404), dependencies=deps.AS_WORKFLOW_OPERATOR)
def pause_workflow(mill: deps.Mill, name: deps.WorkflowName) -> server_schemas.WorkflowDocument:
    """Pause a workflow: servers run none of its flows; data is still accepted, and processed when it resumes."""
    mill.catalog.workflows.set_paused(name, paused=True)
    return _serialize_workflow(mill, name)


@router.post("/workflows/{name}/resume", responses=build_responses(404), dependencies=deps.AS_WORKFLOW_OPERATOR)
def resume_workflow(mill: deps.Mill, wake: deps.Wake, name: deps.WorkflowName) -> server_schemas.WorkflowDocument:
    """Resume a paused workflow."""
    mill.catalog.workflows.set_paused(name, paused=False)
    wake()
    return _serialize_workflow(mill, name)


@router.put("/workflows/{name}/priority", responses=build_responses(400, 404, 413), dependencies=deps.AS_ADMIN)
def prioritise_workflow(
    mill: deps.Mill, name: deps.WorkflowName, body: server_schemas.PriorityDocument
) -> server_schemas.WorkflowDocument:
    """Set the priority of a workflow's runs when not all can run at once."""
    mill.catalog.workflows.set_priority(name, body.priority)
    return _serialize_workflow(mill, name)


def _serialize_workflow(mill: Tidemill, name: str) -> server_schemas.WorkflowDocument:
    return server_schemas.WorkflowDocument.model_validate(inspection.find_workflow(mill.catalog.workflows, name))
