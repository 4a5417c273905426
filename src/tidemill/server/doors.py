"""What routes ask for: the project, and a caller who may do this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Request

from tidemill.app import Tidemill
from tidemill.model.access import Role
from tidemill.model.run import RunKind
from tidemill.registry import WorkflowDocument
from tidemill.server.access import Access, Caller
from tidemill.server.options import Options
from tidemill.server.parameters import FlowName, Name, Number, WorkflowName
from tidemill.wire.refusals import Unidentified


def _mill(request: Request) -> Tidemill:
    found: Tidemill = request.app.state.mill
    return found


def _access(request: Request) -> Access:
    found: Access = request.app.state.access
    return found


def _options(request: Request) -> Options:
    found: Options = request.app.state.options
    return found


def _wake(request: Request) -> Callable[[], None]:
    found: Callable[[], None] = request.app.state.wake
    return found


def _caller(request: Request) -> Caller:
    found: Caller | None = getattr(request.state, "caller", None)
    if found is None:
        raise Unidentified("nobody was identified for this address")
    return found


Mill = Annotated[Tidemill, Depends(_mill)]
TheAccess = Annotated[Access, Depends(_access)]
TheOptions = Annotated[Options, Depends(_options)]
TheCaller = Annotated[Caller, Depends(_caller)]
Wake = Annotated[Callable[[], None], Depends(_wake)]
"""Tells a server in this process that there may be something to do."""


def needs(role: Role, of: Callable[..., str | None] | None = None) -> Any:
    """A dependency: the caller has this role and, if `of` finds the workflow that is concerned, may change it."""

    def has_role(access: TheAccess, caller: TheCaller) -> None:
        access.permit(caller, role)

    if of is None:
        return Depends(has_role)

    def may_change(
        access: TheAccess, caller: TheCaller, _: None = Depends(has_role), workflow: str | None = Depends(of)
    ) -> None:
        access.permit_in(caller, workflow)

    return Depends(may_change)


def channels_workflow(mill: Mill, name: Name) -> str | None:
    return mill.catalog.channel(name).workflow


def flows_workflow(mill: Mill, name: FlowName) -> str | None:
    return _workflow_of_flow(mill, name)


def runs_workflow(mill: Mill, run: Number) -> str | None:
    found = mill.catalog.run(run)
    if found.kind is RunKind.FLOW:
        return _workflow_of_flow(mill, found.subject)
    return mill.catalog.channel(found.subject).workflow


def documents_workflow(document: WorkflowDocument) -> str | None:
    return document.name


def itself(name: WorkflowName) -> str | None:
    return name


def _workflow_of_flow(mill: Tidemill, flow: str) -> str | None:
    return next((b.workflow for b in mill.catalog.bindings() if b.name == flow), None)
