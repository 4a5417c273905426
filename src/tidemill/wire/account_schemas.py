"""Documents about users, tokens and the audit log of the API."""

from typing import Annotated

from pydantic import Field

from tidemill.model.access import UserRole
from tidemill.wire.document import RequestDocument, ResponseDocument, Source, Timestamp

_MAX_SECONDS = 10 * 365 * 86_400.0

UserName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.@-]{1,100}$")]


class CallerDocument(ResponseDocument):
    name: str
    role: UserRole
    token: str | None  # its id; None while access control is off


class UserDocument(ResponseDocument):
    name: str
    role: UserRole
    created: Timestamp


class UserListDocument(ResponseDocument):
    users: list[UserDocument]


class UserChangeDocument(RequestDocument):
    role: UserRole


class TokenDocument(ResponseDocument):
    id: str
    user: str
    label: str
    created: Timestamp
    expires: Timestamp | None
    revoked: Timestamp | None


class TokenListDocument(ResponseDocument):
    tokens: list[TokenDocument]


class TokenRequestDocument(RequestDocument):
    label: str = Field(default="", max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")
    seconds: float | None = Field(default=None, gt=0, le=_MAX_SECONDS)  # of validity; None: until revoked


class IssuedTokenDocument(ResponseDocument):
    token: TokenDocument
    secret: Annotated[str, Source("text")]  # to send as the bearer token; it is shown only once


class OwnerListDocument(RequestDocument):
    """The owners of a workflow; without owners, every operator may operate it."""

    owners: list[UserName] = Field(max_length=100)


class AuditEntryDocument(ResponseDocument):
    id: int
    at: Timestamp
    user: str
    role: UserRole | None
    token: str | None
    address: str
    action: str
    outcome: int | None


class AuditLogDocument(ResponseDocument):
    entries: list[AuditEntryDocument]
