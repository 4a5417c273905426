"""`access`: who may call the API. It works on the catalog itself: a user who can open that needs no token."""

from typing import Annotated

import typer

from tidemill.cli.command import Limit, Tidemill
from tidemill.cli.output import Answer, build_table, render_list
from tidemill.display import columns
from tidemill.display.formatting import format_age
from tidemill.errors import BadInput, translate_value_error
from tidemill.model.access import Token, UserRole
from tidemill.model.timestamps import format_iso
from tidemill.model.units import parse_duration
from tidemill.wire.account_schemas import AuditLogDocument, TokenDocument, UserDocument
from tidemill.wire.command_schemas import AccountsDocument

User = Annotated[str, typer.Argument(help="The user's name.")]


def users(mill: Tidemill) -> Answer:
    """List the users and their tokens."""
    user_list, tokens = mill.catalog.accounts.list_users(), mill.catalog.accounts.list_tokens()
    now = mill.catalog.read_time()
    document = AccountsDocument.build(users=user_list, tokens=tokens)
    user_table = build_table("users", ("user", "role"), ([u.name, u.role] for u in user_list))
    rows = ([t.id, t.user, t.label, format_age(t.created, now), _format_state(t, now)] for t in tokens)
    return Answer(document, user_table, build_table("tokens", ("token", "user", "label", "issued", ""), rows))


def user(mill: Tidemill, name: User, role: Annotated[UserRole, typer.Argument(help="Their permissions.")]) -> Answer:
    """Add a user, or change their role."""
    saved = mill.catalog.accounts.save_user(name, role)
    return Answer(UserDocument.model_validate(saved), f"{saved.name} is {saved.role}")


def token(
    mill: Tidemill,
    name: User,
    label: Annotated[str, typer.Option(help="Its purpose.")] = "",
    expires_in: Annotated[str | None, typer.Option(help="Such as '90 days'; default: until revoked.")] = None,
) -> Answer:
    """Issue a token. It is shown only once, and not stored."""
    with translate_value_error(BadInput):
        duration = None if expires_in is None else parse_duration(expires_in)
    issued = mill.catalog.accounts.issue_token(name, label=label, seconds=duration)
    return Answer(dict(TokenDocument.model_validate(issued.token)) | {"text": issued.text}, issued.text)


def revoke(
    mill: Tidemill, number: Annotated[str, typer.Argument(help="The token's number: the part after tdm_.")]
) -> Answer:
    """Revoke a token."""
    revoked = mill.catalog.accounts.revoke_token(number)
    return Answer(TokenDocument.model_validate(revoked), f"token {revoked.id} of {revoked.user} is revoked")


def owners(
    mill: Tidemill,
    workflow: Annotated[str, typer.Argument(help="The workflow's name.")],
    users: Annotated[list[str] | None, typer.Argument(help="Users; none: the workflow has no owner.")] = None,
) -> Answer:
    """Set the owners of a workflow: other operators may not change anything in it."""
    mill.catalog.accounts.set_owners(workflow, users or [])
    current = mill.catalog.accounts.list_owners(workflow)
    return Answer({"workflow": workflow, "owners": current}, f"{workflow} belongs to {', '.join(current) or 'no user'}")


def audit(mill: Tidemill, limit: Limit = 20) -> Answer:
    """List the changes over the API, by the page and by commands, the newest first."""
    entries, now = mill.catalog.accounts.list_audit_entries(limit=limit), mill.catalog.read_time()
    shown = render_list("", columns.AUDIT, entries, now, empty="no changes")
    return Answer(AuditLogDocument.build(entries=entries), shown)


def _format_state(token: Token, now: float) -> str:
    if token.revoked is not None:
        return "revoked"
    if not token.is_usable(now):
        return "expired"
    return "" if token.expires is None else f"until {format_iso(token.expires)}"
