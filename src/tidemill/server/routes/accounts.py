"""Users, tokens, owners and the audit."""

from __future__ import annotations

from fastapi import APIRouter, Response

from tidemill.model.access import Entry, Role, Token, User
from tidemill.model.codec import Json
from tidemill.model.timestamps import iso
from tidemill.server.dependencies import Before, Limit, TheAccess, TheCaller, TokenId, WorkflowName, needs
from tidemill.server.dependencies import User as Named
from tidemill.server.error_handlers import answers
from tidemill.wire import account_schemas

mine = APIRouter(tags=["access"], dependencies=[needs(Role.VIEWER)])
router = APIRouter(tags=["access"], dependencies=[needs(Role.ADMIN)])
_CHANGE = answers(400, 404, 409, 413)


@mine.get("/me", response_model=account_schemas.Me)
def me(caller: TheCaller) -> Json:
    """Say who calls."""
    return {"name": caller.name, "role": caller.role, "token": caller.token}


@router.get("/users", response_model=account_schemas.Users)
def users(access: TheAccess) -> Json:
    """List those who may call."""
    return {"users": [_user(u) for u in access.accounts.users()]}


@router.put("/users/{name}", response_model=account_schemas.User, responses=answers(400, 409, 413))
def keep_user(access: TheAccess, name: Named, wish: account_schemas.UserChange) -> Json:
    """Add a user, or change their role."""
    return _user(access.accounts.keep_user(name, wish.role))


@router.delete("/users/{name}", status_code=204, responses=answers(404, 409))
def remove_user(access: TheAccess, name: Named) -> Response:
    """Remove a user; their tokens are revoked, and their workflows no longer theirs."""
    access.accounts.remove_user(name)
    return Response(status_code=204)


@router.get("/tokens", response_model=account_schemas.Tokens)
def tokens(access: TheAccess) -> Json:
    """List all tokens, without their secrets."""
    return {"tokens": [_token(t) for t in access.accounts.tokens()]}


@router.post("/users/{name}/tokens", status_code=201, response_model=account_schemas.TokenIssued, responses=_CHANGE)
def issue(access: TheAccess, name: Named, wish: account_schemas.TokenWish) -> Json:
    """Issue a token. Its secret is shown in this answer, and never again."""
    issued = access.accounts.issue(name, label=wish.label, lasts=wish.seconds)
    return {"token": _token(issued.token), "secret": issued.text}


@router.delete("/tokens/{token}", response_model=account_schemas.Token, responses=answers(404, 409))
def revoke(access: TheAccess, token: TokenId) -> Json:
    """Revoke a token: from now on it is refused."""
    return _token(access.accounts.revoke(token))


@router.get("/workflows/{name}/owners", response_model=account_schemas.Owners)
def owners(access: TheAccess, name: WorkflowName) -> Json:
    """Show whose workflow it is; nobody's is every operator's."""
    return {"owners": access.accounts.owners(name)}


@router.put("/workflows/{name}/owners", response_model=account_schemas.Owners, responses=_CHANGE)
def own(access: TheAccess, name: WorkflowName, wish: account_schemas.Owners) -> Json:
    """Make a workflow these users', and nobody else's."""
    access.accounts.own(name, wish.owners)
    return {"owners": access.accounts.owners(name)}


@router.get("/audit", response_model=account_schemas.Audit)
def audit(access: TheAccess, before: Before = None, limit: Limit = 100) -> Json:
    """List the changes that were asked for over the API, the newest first."""
    return {"entries": [_entry(e) for e in access.accounts.entries(before=before, limit=limit)]}


def _user(value: User) -> Json:
    return {"name": value.name, "role": value.role, "created": iso(value.created)}


def _token(value: Token) -> Json:
    return {
        "id": value.id,
        "user": value.user,
        "label": value.label,
        "created": iso(value.created),
        "expires": iso(value.expires),
        "revoked": iso(value.revoked),
    }


def _entry(value: Entry) -> Json:
    return {
        "id": value.id,
        "at": iso(value.at),
        "user": value.user,
        "token": value.token,
        "address": value.address,
        "action": value.action,
        "outcome": value.outcome,
    }
