"""Users, tokens, owners and the audit log."""

from __future__ import annotations

from fastapi import APIRouter, Response

from tidemill.model.access import AuditEntry, Token, User, UserRole
from tidemill.model.codec import Json
from tidemill.model.timestamps import format_iso
from tidemill.server.dependencies import Before, Limit, TheAccess, TheCaller, TokenId, WorkflowName, require_role
from tidemill.server.dependencies import User as Named
from tidemill.server.error_handlers import build_responses
from tidemill.wire import account_schemas

caller_router = APIRouter(tags=["access"], dependencies=[require_role(UserRole.VIEWER)])
router = APIRouter(tags=["access"], dependencies=[require_role(UserRole.ADMIN)])
_CHANGE = build_responses(400, 404, 409, 413)


@caller_router.get("/me", response_model=account_schemas.CallerDocument)
def get_caller(caller: TheCaller) -> Json:
    """Show the authenticated caller."""
    return {"name": caller.name, "role": caller.role, "token": caller.token}


@router.get("/users", response_model=account_schemas.UserListDocument)
def list_users(access: TheAccess) -> Json:
    """List the users."""
    return {"users": [_serialize_user(u) for u in access.accounts.list_users()]}


@router.put("/users/{name}", response_model=account_schemas.UserDocument, responses=build_responses(400, 409, 413))
def put_user(access: TheAccess, name: Named, body: account_schemas.UserChangeDocument) -> Json:
    """Add a user, or change their role."""
    return _serialize_user(access.accounts.save_user(name, body.role))


@router.delete("/users/{name}", status_code=204, responses=build_responses(404, 409))
def remove_user(access: TheAccess, name: Named) -> Response:
    """Remove a user; their tokens are revoked, and they no longer own workflows."""
    access.accounts.remove_user(name)
    return Response(status_code=204)


@router.get("/tokens", response_model=account_schemas.TokenListDocument)
def list_tokens(access: TheAccess) -> Json:
    """List all tokens, without their secrets."""
    return {"tokens": [_serialize_token(t) for t in access.accounts.list_tokens()]}


@router.post(
    "/users/{name}/tokens", status_code=201, response_model=account_schemas.IssuedTokenDocument, responses=_CHANGE
)
def issue_token(access: TheAccess, name: Named, body: account_schemas.TokenRequestDocument) -> Json:
    """Issue a token. Its secret is only shown in this response."""
    issued = access.accounts.issue_token(name, label=body.label, seconds=body.seconds)
    return {"token": _serialize_token(issued.token), "secret": issued.text}


@router.delete("/tokens/{token}", response_model=account_schemas.TokenDocument, responses=build_responses(404, 409))
def revoke_token(access: TheAccess, token: TokenId) -> Json:
    """Revoke a token: from now on it is refused."""
    return _serialize_token(access.accounts.revoke_token(token))


@router.get("/workflows/{name}/owners", response_model=account_schemas.OwnerListDocument)
def list_owners(access: TheAccess, name: WorkflowName) -> Json:
    """List the owners of a workflow; without owners, every operator may change it."""
    return {"owners": access.accounts.list_owners(name)}


@router.put("/workflows/{name}/owners", response_model=account_schemas.OwnerListDocument, responses=_CHANGE)
def set_owners(access: TheAccess, name: WorkflowName, body: account_schemas.OwnerListDocument) -> Json:
    """Set the owners of a workflow; only they may change it."""
    access.accounts.set_owners(name, body.owners)
    return {"owners": access.accounts.list_owners(name)}


@router.get("/audit", response_model=account_schemas.AuditLogDocument)
def list_audit_entries(access: TheAccess, before: Before = None, limit: Limit = 100) -> Json:
    """List the changes requested over the API, the newest first."""
    return {"entries": [_serialize_entry(e) for e in access.accounts.list_audit_entries(before=before, limit=limit)]}


def _serialize_user(value: User) -> Json:
    return {"name": value.name, "role": value.role, "created": format_iso(value.created)}


def _serialize_token(value: Token) -> Json:
    return {
        "id": value.id,
        "user": value.user,
        "label": value.label,
        "created": format_iso(value.created),
        "expires": format_iso(value.expires),
        "revoked": format_iso(value.revoked),
    }


def _serialize_entry(value: AuditEntry) -> Json:
    return {
        "id": value.id,
        "at": format_iso(value.at),
        "user": value.user,
        "token": value.token,
        "address": value.address,
        "action": value.action,
        "outcome": value.outcome,
    }
