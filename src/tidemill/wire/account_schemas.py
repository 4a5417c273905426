"""Documents about those who call the API."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidemill.model.access import Role
from tidemill.wire.schemas import Moment, Shape, Wish

_LONGEST = 10 * 365 * 86_400.0

UserName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.@-]{1,100}$")]


class Me(Shape):
    name: str
    role: Role
    token: str | None  # its number; None while access control is off


class User(Shape):
    name: str
    role: Role
    created: Moment


class Users(Shape):
    users: list[User]


class UserChange(Wish):
    role: Role


class Token(Shape):
    id: str
    user: str
    label: str
    created: Moment
    expires: Moment | None
    revoked: Moment | None


class Tokens(Shape):
    tokens: list[Token]


class TokenWish(Wish):
    label: str = Field(default="", max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")
    seconds: float | None = Field(default=None, gt=0, le=_LONGEST)  # for which it can be used; None: until revoked


class TokenIssued(Shape):
    token: Token
    secret: str  # what to send as the bearer token; it is shown this once


class Owners(Wish):
    """Whose workflow it is; no owners: nobody's, and so every operator's."""

    owners: list[UserName] = Field(max_length=100)


class AuditEntry(Shape):
    id: int
    at: Moment
    user: str
    token: str | None
    address: str
    action: str
    outcome: int | None


class Audit(Shape):
    entries: list[AuditEntry]
