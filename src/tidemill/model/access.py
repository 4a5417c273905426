"""Access control: users with roles, the tokens that authenticate them, and the audit log of their changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class UserRole(StrEnum):
    """A role includes the rights of the roles before it."""

    VIEWER = "viewer"  # read everything but the logs of runs
    OPERATOR = "operator"  # insert, run, kill and read logs in workflows that the user owns or that have no owner
    DEVELOPER = "developer"  # register code in these workflows, and submit programs
    ADMIN = "admin"

    def covers_role(self, other: UserRole) -> bool:
        """Whether this role includes the rights of `other`.

        >>> UserRole.OPERATOR.covers_role(UserRole.VIEWER), UserRole.OPERATOR.covers_role(UserRole.ADMIN)
        (True, False)
        """
        ranks = tuple(UserRole)
        return ranks.index(self) >= ranks.index(other)


@dataclass(frozen=True, slots=True)
class User:
    """A person or program that calls the API. A removed user stays in the catalog, since the audit log refers to it."""

    name: str
    role: UserRole
    created: float
    active: bool = True


@dataclass(frozen=True, slots=True)
class Token:
    """A credential of a user. The catalog stores no secret, only the user has it."""

    id: str
    user: str
    label: str  # its purpose
    created: float
    expires: float | None = None
    revoked: float | None = None

    def is_usable(self, now: float) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change over the API, by the page or by a command; `outcome` is its HTTP status, once it has ended."""

    id: int
    at: float
    user: str
    role: UserRole | None  # at that time; None for commands, which need none, and for entries of earlier releases
    token: str | None
    address: str
    action: str  # method and path, action of the page, or command
    outcome: int | None


@dataclass(frozen=True, slots=True)
class AuditStart:
    """A user is about to change something. It is recorded before the change, so that no change lacks an entry."""

    user: str
    token: str | None
    address: str
    action: str
    role: UserRole | None = None


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """The HTTP status that ended an audited change."""

    entry: int
    outcome: int


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token and the text that its holder sends; the text is not stored."""

    token: Token
    text: str = field(repr=False)
