"""`access`: who may call the API. It works on the catalog itself: a user who can open that needs no token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.formatting import format_age
from tidemill.cli.lazy_imports import load_accounts_class
from tidemill.cli.options import AsJson, open_project
from tidemill.cli.output import build_table, show_answer
from tidemill.errors import BadInput
from tidemill.model.access import Token, UserRole
from tidemill.model.timestamps import format_iso
from tidemill.model.units import parse_duration

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill
    from tidemill.catalog.access import AccountCatalog

User = Annotated[str, typer.Argument(help="The user's name.")]


def register_commands(app: typer.Typer) -> None:
    access = typer.Typer(help="Users of the API, their tokens, and who owns which workflow.", no_args_is_help=True)
    for command in (users, user, token, revoke, owners):
        access.command()(command)
    app.add_typer(access, name="access")


def _open_accounts(mill: Tidemill) -> AccountCatalog:
    return load_accounts_class()(mill.catalog)


def users(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the users and their tokens."""
    with open_project(ctx) as mill:
        user_list, tokens = _open_accounts(mill).list_users(), _open_accounts(mill).list_tokens()
        now = mill.catalog.read_time()
    document = {
        "users": [{"name": u.name, "role": str(u.role)} for u in user_list],
        "tokens": [_serialize_token(t) for t in tokens],
    }
    user_table = build_table("users", ("user", "role"), ([u.name, u.role] for u in user_list))
    rows = ([t.id, t.user, t.label, format_age(t.created, now), _format_state(t, now)] for t in tokens)
    show_answer(as_json, document, user_table, build_table("tokens", ("token", "user", "label", "issued", ""), rows))


def user(
    ctx: typer.Context,
    name: User,
    role: Annotated[UserRole, typer.Argument(help="Their permissions.")],
    as_json: AsJson = False,
) -> None:
    """Add a user, or change their role."""
    with open_project(ctx) as mill:
        saved = _open_accounts(mill).save_user(name, role)
    show_answer(as_json, {"name": saved.name, "role": str(saved.role)}, f"{saved.name} is {saved.role}")


def token(
    ctx: typer.Context,
    name: User,
    label: Annotated[str, typer.Option("--label", help="Its purpose.")] = "",
    expires_in: Annotated[
        str | None, typer.Option("--expires-in", help="Such as '90 days'; default: until revoked.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Issue a token. It is shown only once, and not stored."""
    try:
        duration = None if expires_in is None else parse_duration(expires_in)
    except ValueError as error:
        raise BadInput(str(error)) from error
    with open_project(ctx) as mill:
        issued = _open_accounts(mill).issue_token(name, label=label, seconds=duration)
    show_answer(as_json, _serialize_token(issued.token) | {"text": issued.text}, issued.text)


def revoke(
    ctx: typer.Context,
    number: Annotated[str, typer.Argument(help="The token's number: the part after tdm_.")],
    as_json: AsJson = False,
) -> None:
    """Revoke a token."""
    with open_project(ctx) as mill:
        revoked = _open_accounts(mill).revoke_token(number)
    show_answer(as_json, _serialize_token(revoked), f"token {revoked.id} of {revoked.user} is revoked")


def owners(
    ctx: typer.Context,
    workflow: Annotated[str, typer.Argument(help="The workflow's name.")],
    users: Annotated[list[str] | None, typer.Argument(help="Users; none: the workflow has no owner.")] = None,
    as_json: AsJson = False,
) -> None:
    """Set the owners of a workflow: other operators may not change anything in it."""
    with open_project(ctx) as mill:
        _open_accounts(mill).set_owners(workflow, users or [])
        current = _open_accounts(mill).list_owners(workflow)
    show_answer(
        as_json, {"workflow": workflow, "owners": current}, f"{workflow} belongs to {', '.join(current) or 'no user'}"
    )


def _serialize_token(token: Token) -> dict[str, str | None]:
    return {
        "id": token.id,
        "user": token.user,
        "label": token.label,
        "created": format_iso(token.created),
        "expires": format_iso(token.expires),
        "revoked": format_iso(token.revoked),
    }


def _format_state(token: Token, now: float) -> str:
    if token.revoked is not None:
        return "revoked"
    if not token.is_usable(now):
        return "expired"
    return "" if token.expires is None else f"until {format_iso(token.expires)}"
