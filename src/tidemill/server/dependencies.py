"""What routes ask for: the project, and a caller who may do this."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from tidemill.app.registry import WorkflowDocument
from tidemill.app.wiring import Tidemill
from tidemill.model.access import Role
from tidemill.runtime.runs.insert_batcher import Taken, Wanted
from tidemill.runtime.runs.requests import workflow_of, workflow_of_flow
from tidemill.server.access import Access, Caller
from tidemill.server.batching import Batches
from tidemill.server.feed import Feed
from tidemill.server.options import Options
from tidemill.server.parameters import FlowName, Name, Number, WorkflowName
from tidemill.wire.refusals import Unidentified


async def _mill(request: HTTPConnection) -> Tidemill:
    found: Tidemill = request.app.state.mill
    return found


async def _access(request: HTTPConnection) -> Access:
    found: Access = request.app.state.access
    return found


async def _options(request: HTTPConnection) -> Options:
    found: Options = request.app.state.options
    return found


async def _wake(request: HTTPConnection) -> Callable[[], None]:
    found: Callable[[], None] = request.app.state.wake
    return found


async def _small(request: HTTPConnection) -> Batches[Wanted, Taken]:
    found: Batches[Wanted, Taken] = request.app.state.small
    return found


async def _feed(request: HTTPConnection) -> Feed:
    found: Feed = request.app.state.feed
    return found


async def _caller(request: HTTPConnection) -> Caller:
    found: Caller | None = getattr(request.state, "caller", None)
    if found is None:
        raise Unidentified("nobody was identified for this address")
    return found


Mill = Annotated[Tidemill, Depends(_mill)]
TheAccess = Annotated[Access, Depends(_access)]
TheOptions = Annotated[Options, Depends(_options)]
TheCaller = Annotated[Caller, Depends(_caller)]
Smalls = Annotated[Batches[Wanted, Taken], Depends(_small)]
"""Small inserts and pushes, which may share a block with others."""
TheFeed = Annotated[Feed, Depends(_feed)]
Wake = Annotated[Callable[[], None], Depends(_wake)]
"""Tells a server in this process that there may be something to do."""


Finds = Callable[[], str | None]
"""Finds the workflow that is concerned: asked only if it matters whose it is."""


def needs(role: Role, of: Callable[..., Awaitable[Finds]] | None = None) -> Any:
    """A dependency: the caller has this role and, if `of` says which workflow is concerned, may change it."""

    async def has_role(access: TheAccess, caller: TheCaller) -> None:
        access.permit(caller, role)

    if of is None:
        return Depends(has_role)

    async def may_change(
        access: TheAccess, caller: TheCaller, _: None = Depends(has_role), found: Finds = Depends(of)
    ) -> None:
        if caller.role is not Role.ADMIN:  # whose workflow it is matters
            await run_in_threadpool(lambda: access.permit_in(caller, found()))

    return Depends(may_change)


async def channels_workflow(mill: Mill, name: Name) -> Finds:
    return lambda: mill.catalog.channel(name).workflow


async def flows_workflow(mill: Mill, name: FlowName) -> Finds:
    return lambda: workflow_of_flow(mill.catalog, name)


async def runs_workflow(mill: Mill, run: Number) -> Finds:
    return lambda: workflow_of(mill.catalog, run)


async def documents_workflow(document: WorkflowDocument) -> Finds:
    return lambda: document.name


async def itself(name: WorkflowName) -> Finds:
    return lambda: name
