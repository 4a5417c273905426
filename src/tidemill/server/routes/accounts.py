"""Users, tokens, owners and the audit log."""

from fastapi import APIRouter, Response

from tidemill.server.dependencies import AS_ADMIN, AS_VIEWER, Before, Limit, TheAccess, TheCaller, TokenId, WorkflowName
from tidemill.server.dependencies import User as Named
from tidemill.server.error_handlers import build_responses
from tidemill.wire import account_schemas

caller_router = APIRouter(tags=["access"], dependencies=AS_VIEWER)
router = APIRouter(tags=["access"], dependencies=AS_ADMIN)
_CHANGE = build_responses(400, 404, 409, 413)


@caller_router.get("/me")
def get_caller(caller: TheCaller) -> account_schemas.CallerDocument:
    """Show the authenticated caller."""
    return account_schemas.CallerDocument.model_validate(caller)


@router.get("/users")
def list_users(access: TheAccess) -> account_schemas.UserListDocument:
    """List the users."""
    return account_schemas.UserListDocument.build(users=access.accounts.list_users())


@router.put("/users/{name}", responses=build_responses(400, 409, 413))
def put_user(access: TheAccess, name: Named, body: account_schemas.UserChangeDocument) -> account_schemas.UserDocument:
    """Add a user, or change their role."""
    return account_schemas.UserDocument.model_validate(access.accounts.save_user(name, body.role))


@router.delete("/users/{name}", status_code=204, responses=build_responses(404, 409))
def remove_user(access: TheAccess, name: Named) -> Response:
    """Remove a user; their tokens are revoked, and they no longer own workflows."""
    access.accounts.remove_user(name)
    return Response(status_code=204)


@router.get("/tokens")
def list_tokens(access: TheAccess) -> account_schemas.TokenListDocument:
    """List all tokens, without their secrets."""
    return account_schemas.TokenListDocument.build(tokens=access.accounts.list_tokens())


@router.post("/users/{name}/tokens", status_code=201, responses=_CHANGE)
def issue_token(
    access: TheAccess, name: Named, body: account_schemas.TokenRequestDocument
) -> account_schemas.IssuedTokenDocument:
    """Issue a token. Its secret is only shown in this response."""
    issued = access.accounts.issue_token(name, label=body.label, seconds=body.seconds)
    return account_schemas.IssuedTokenDocument.model_validate(issued)


@router.delete("/tokens/{token}", responses=build_responses(404, 409))
def revoke_token(access: TheAccess, token: TokenId) -> account_schemas.TokenDocument:
    """Revoke a token: from now on it is refused."""
    return account_schemas.TokenDocument.model_validate(access.accounts.revoke_token(token))


@router.get("/workflows/{name}/owners")
def list_owners(access: TheAccess, name: WorkflowName) -> account_schemas.OwnerListDocument:
    """List the owners of a workflow; without owners, every operator may change it."""
    return account_schemas.OwnerListDocument(owners=access.accounts.list_owners(name))


@router.put("/workflows/{name}/owners", responses=_CHANGE)
def set_owners(
    access: TheAccess, name: WorkflowName, body: account_schemas.OwnerListDocument
) -> account_schemas.OwnerListDocument:
    """Set the owners of a workflow; only they may change it."""
    access.accounts.set_owners(name, body.owners)
    return account_schemas.OwnerListDocument(owners=access.accounts.list_owners(name))


@router.get("/audit")
def list_audit_entries(
    access: TheAccess, before: Before = None, limit: Limit = 100
) -> account_schemas.AuditLogDocument:
    """List the changes over the API, by the page and by commands, with the users and their roles, the newest first."""
    return account_schemas.AuditLogDocument.build(
        entries=access.accounts.list_audit_entries(before=before, limit=limit)
    )
