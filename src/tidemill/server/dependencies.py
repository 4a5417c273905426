"""Options of the API, and dependencies of routes: the project, an authorised caller, and parameters."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from tidemill.app.registry import WorkflowDefinition
from tidemill.app.wiring import Tidemill
from tidemill.model.access import UserRole
from tidemill.runtime.runs.insert_batcher import InsertRequest, InsertSuccess
from tidemill.runtime.runs.requests import find_flow_workflow, find_run_workflow
from tidemill.server.access import AccessControl, Caller, StreamAccess
from tidemill.server.batching import RequestBatcher
from tidemill.server.feed import EventFeed
from tidemill.wire.refusals import Unidentified


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Sizes are in bytes, times in seconds."""

    allowed_hosts: tuple[str, ...] = ()  # names by which clients may address the server, besides those of loopback
    trusted_proxies: tuple[str, ...] = ()  # addresses or networks whose X-Forwarded-For and -Proto are believed
    max_connections: int = 1000  # open at the same time; beyond, the one that waits longest is closed
    header_timeout: float = 10.0  # within which a connection must send the headers of a request
    body_timeout: float = 60.0  # within which the body of a request other than an insert must arrive
    max_upload_bytes: int = 1024**3  # of one insert, compressed and decompressed
    max_body_bytes: int = 1024**2  # of any other request
    max_shared_bytes: int = 256 * 1024  # inserts up to this size may share a block with concurrent ones
    max_wait: float = 0.5  # seconds that a pushed message waits for others to share its block
    max_rows: int = 100_000  # that fill a block without further waiting
    max_bytes: int = 8 * 1024**2  # likewise
    max_message_bytes: int = 1024**2  # of one pushed message
    max_unacknowledged_bytes: int = 512 * 1024  # of one connection's messages; beyond, it is not read from
    memory_bytes: int = 64 * 1024**2  # of all connections' messages together; beyond, none is read from
    poll_interval: float = 0.5  # between two polls for new events
    stream_seconds: float = 300.0  # after which a stream ends: the client reconnects, and its rights are checked again
    check_seconds: float = 5.0  # between two checks of the token of an open stream


_NAME = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
_ANY_NAME = r"^[^/\x00-\x1f\x7f]+$"
_AS_OF = r"^([0-9]{1,18}|[0-9]{4}-[0-9Tt:.,+ Zz-]{2,36})$"
_LARGEST = 2**63 - 1
_LONGEST = 200

Name = Annotated[str, Path(description="The channel's name.", pattern=_NAME, max_length=_LONGEST)]
FlowName = Annotated[str, Path(description="The bound flow's name.", pattern=_NAME, max_length=_LONGEST)]
WorkflowName = Annotated[str, Path(description="The workflow's name.", pattern=_ANY_NAME, max_length=_LONGEST)]
User = Annotated[str, Path(description="The user's name.", pattern=r"^[A-Za-z0-9_.@-]{1,100}$")]
TokenId = Annotated[str, Path(description="The token's number.", pattern=r"^[0-9a-f]{12}$")]
Number = Annotated[int, Path(description="The number.", ge=1, le=_LARGEST)]

Limit = Annotated[int, Query(description="The maximum number of results.", ge=1, le=1000)]
Before = Annotated[int | None, Query(description="Only entries with a smaller number.", ge=1, le=_LARGEST)]
After = Annotated[int | None, Query(description="Only entries with a larger number.", ge=0, le=_LARGEST)]
IncludeStates = Annotated[bool, Query(alias="all", description="Include the state channels of declared tables.")]
OfFlow = Annotated[str | None, Query(description="Only of this flow.", pattern=_NAME, max_length=_LONGEST)]
OfSubject = Annotated[
    str | None, Query(description="Only of this flow or channel.", pattern=_NAME, max_length=_LONGEST)
]
WaveTag = Annotated[
    str, Query(description="The tag of an event, such as 17.3!", pattern=r"^[0-9]{1,18}(\.[1-9][0-9]{0,17}!?){0,100}$")
]
AsOf = Annotated[
    str | None, Query(description="A sequence number, or a time in UTC like 2026-05-01T12:00.", pattern=_AS_OF)
]


def _read_state(name: str) -> Any:
    """A dependency: a value that `build_api` has put into the application's state."""

    async def read_state(request: HTTPConnection) -> Any:
        return getattr(request.app.state, name)

    return Depends(read_state)


async def _get_caller(request: HTTPConnection) -> Caller:
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None:
        raise Unidentified("the caller was not identified for this address")
    return caller


Mill = Annotated[Tidemill, _read_state("mill")]
TheAccess = Annotated[AccessControl, _read_state("access")]
TheOptions = Annotated[ApiOptions, _read_state("options")]
TheCaller = Annotated[Caller, Depends(_get_caller)]


async def _get_stream_access(access: TheAccess, options: TheOptions, caller: TheCaller) -> StreamAccess:
    return StreamAccess(access, caller, options.check_seconds)


TheStreamAccess = Annotated[StreamAccess, Depends(_get_stream_access)]
TheInsertBatcher = Annotated[RequestBatcher[InsertRequest, InsertSuccess], _read_state("insert_batcher")]
"""The batcher of small inserts and pushes, which may share a block."""
TheFeed = Annotated[EventFeed, _read_state("feed")]
Wake = Annotated[Callable[[], None], _read_state("wake")]
"""Wakes the server in this process, because there may be work to do."""


WorkflowFinder = Callable[[], str | None]
"""Finds the workflow of the requested object; called only if ownership matters."""


def require_role(role: UserRole, resolve_workflow: Callable[..., Awaitable[WorkflowFinder]] | None = None) -> Any:
    """A dependency: the caller has this role and may change the workflow that `resolve_workflow` finds, if any."""

    async def check_caller_role(access: TheAccess, caller: TheCaller) -> None:
        access.check_role(caller, role)

    if resolve_workflow is None:
        return Depends(check_caller_role)

    async def check_ownership(
        access: TheAccess,
        caller: TheCaller,
        _: None = Depends(check_caller_role),
        find_workflow: WorkflowFinder = Depends(resolve_workflow),
    ) -> None:
        if caller.role is not UserRole.ADMIN:  # admins may change every workflow
            await run_in_threadpool(lambda: access.check_workflow_access(caller, find_workflow()))

    return Depends(check_ownership)


async def resolve_channel_workflow(mill: Mill, name: Name) -> WorkflowFinder:
    return lambda: mill.catalog.channels.read(name).workflow


async def resolve_flow_workflow(mill: Mill, name: FlowName) -> WorkflowFinder:
    return lambda: find_flow_workflow(mill.catalog.flows, name)


async def resolve_run_workflow(mill: Mill, run: Number) -> WorkflowFinder:
    return lambda: find_run_workflow(mill.catalog, run)


async def resolve_document_workflow(document: WorkflowDefinition) -> WorkflowFinder:
    return lambda: document.name


async def resolve_named_workflow(name: WorkflowName) -> WorkflowFinder:
    return lambda: name


AS_VIEWER = [require_role(UserRole.VIEWER)]
AS_ADMIN = [require_role(UserRole.ADMIN)]
AS_CHANNEL_OPERATOR = [require_role(UserRole.OPERATOR, resolve_workflow=resolve_channel_workflow)]
AS_FLOW_OPERATOR = [require_role(UserRole.OPERATOR, resolve_workflow=resolve_flow_workflow)]
AS_RUN_OPERATOR = [require_role(UserRole.OPERATOR, resolve_workflow=resolve_run_workflow)]
AS_WORKFLOW_OPERATOR = [require_role(UserRole.OPERATOR, resolve_workflow=resolve_named_workflow)]
AS_DEVELOPER = [require_role(UserRole.DEVELOPER)]
AS_DOCUMENT_DEVELOPER = [require_role(UserRole.DEVELOPER, resolve_workflow=resolve_document_workflow)]
AS_WORKFLOW_DEVELOPER = [require_role(UserRole.DEVELOPER, resolve_workflow=resolve_named_workflow)]
