"""Who may do what: users with roles, the tokens that show who they are, and the record of what they changed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class UserRole(StrEnum):
    """Each may do what those before it may."""

    VIEWER = "viewer"  # look at everything
    OPERATOR = "operator"  # run, kill and insert in workflows that are theirs, or nobody's
    ADMIN = "admin"

    def covers_role(self, other: UserRole) -> bool:
        """
        >>> UserRole.OPERATOR.covers_role(UserRole.VIEWER), UserRole.OPERATOR.covers_role(UserRole.ADMIN)
        (True, False)
        """
        ranks = tuple(UserRole)
        return ranks.index(self) >= ranks.index(other)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody, or some program, that calls the API. One that was removed stays known, as the record names it."""

    name: str
    role: UserRole
    created: float
    active: bool = True


@dataclass(frozen=True, slots=True)
class Token:
    """A user's way to show who they are. Its secret is known to nobody but its holder."""

    id: str
    user: str
    label: str  # what it is for
    created: float
    expires: float | None = None
    revoked: float | None = None

    def is_usable(self, now: float) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change that somebody asked for over the API; `outcome` is the status of the answer, if there was one."""

    id: int
    at: float
    user: str
    token: str | None
    address: str
    action: str  # method and path
    outcome: int | None
