"""`access`: who may call the API. It works on the catalog itself: whoever can open that needs no token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.formatting import ago
from tidemill.cli.lazy_imports import accounts_class
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import show, table
from tidemill.errors import BadInput
from tidemill.model.access import Role, Token
from tidemill.model.timestamps import iso
from tidemill.model.units import seconds

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill
    from tidemill.catalog.access import Accounts

User = Annotated[str, typer.Argument(help="The user's name.")]


def register(app: typer.Typer) -> None:
    access = typer.Typer(help="Users of the API, their tokens, and who owns which workflow.", no_args_is_help=True)
    for command in (users, user, token, revoke, own):
        access.command()(command)
    app.add_typer(access, name="access")


def _accounts(mill: Tidemill) -> Accounts:
    return accounts_class()(mill.catalog)


def users(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the users and their tokens."""
    with opened(ctx) as mill:
        known, tokens = _accounts(mill).users(), _accounts(mill).tokens()
        now = mill.catalog.now()
    document = {
        "users": [{"name": u.name, "role": str(u.role)} for u in known],
        "tokens": [_document(t) for t in tokens],
    }
    shown = table("users", ("user", "role"), ([u.name, u.role] for u in known))
    rows = ([t.id, t.user, t.label, ago(t.created, now), _state(t, now)] for t in tokens)
    show(as_json, document, shown, table("tokens", ("token", "of", "for", "issued", ""), rows))


def user(
    ctx: typer.Context,
    name: User,
    role: Annotated[Role, typer.Argument(help="What they may do.")],
    as_json: AsJson = False,
) -> None:
    """Add a user, or give them another role."""
    with opened(ctx) as mill:
        kept = _accounts(mill).keep_user(name, role)
    show(as_json, {"name": kept.name, "role": str(kept.role)}, f"{kept.name} is {kept.role}")


def token(
    ctx: typer.Context,
    name: User,
    label: Annotated[str, typer.Option("--for", help="What it is for.")] = "",
    lasts: Annotated[str | None, typer.Option("--lasts", help="Such as '90 days'; else until it is revoked.")] = None,
    as_json: AsJson = False,
) -> None:
    """Issue a token. It is shown this once, and kept nowhere."""
    try:
        duration = None if lasts is None else seconds(lasts)
    except ValueError as error:
        raise BadInput(str(error)) from error
    with opened(ctx) as mill:
        issued = _accounts(mill).issue(name, label=label, lasts=duration)
    show(as_json, _document(issued.token) | {"text": issued.text}, issued.text)


def revoke(
    ctx: typer.Context,
    number: Annotated[str, typer.Argument(help="The token's number: what stands behind tdm_.")],
    as_json: AsJson = False,
) -> None:
    """Refuse a token from now on."""
    with opened(ctx) as mill:
        gone = _accounts(mill).revoke(number)
    show(as_json, _document(gone), f"token {gone.id} of {gone.user} is revoked")


def own(
    ctx: typer.Context,
    workflow: Annotated[str, typer.Argument(help="The workflow's name.")],
    owners: Annotated[list[str] | None, typer.Argument(help="Users; none: it is nobody's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say whose workflow it is: other operators may not change anything in it."""
    with opened(ctx) as mill:
        _accounts(mill).own(workflow, owners or [])
        now = _accounts(mill).owners(workflow)
    show(as_json, {"workflow": workflow, "owners": now}, f"{workflow} belongs to {', '.join(now) or 'nobody'}")


def _document(token: Token) -> dict[str, str | None]:
    return {
        "id": token.id,
        "user": token.user,
        "label": token.label,
        "created": iso(token.created),
        "expires": iso(token.expires),
        "revoked": iso(token.revoked),
    }


def _state(token: Token, now: float) -> str:
    if token.revoked is not None:
        return "revoked"
    if not token.usable(now):
        return "expired"
    return "" if token.expires is None else f"until {iso(token.expires)}"
