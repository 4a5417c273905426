"""The catalog's port for access to the API: users, tokens, owners of workflows, and the audit log."""

from collections.abc import Collection, Sequence
from typing import Protocol

from tidemill.model.access import AuditEntry, AuditOutcome, AuditStart, IssuedToken, Token, User, UserRole


class AccountCatalog(Protocol):
    """The users of the API, their tokens, and the audit log."""

    def list_users(self) -> list[User]: ...
    def save_user(self, name: str, role: UserRole) -> User:
        """Add a user, change their role, or restore them; tokens revoked by a removal stay revoked."""

    def remove_user(self, name: str) -> None:
        """Deactivate a user, revoke their tokens and remove their ownership of workflows."""

    def list_tokens(self, user: str | None = None) -> list[Token]: ...
    def issue_token(self, user: str, *, label: str = "", seconds: float | None = None) -> IssuedToken:
        """A new token, valid for `seconds` seconds or until it is revoked."""

    def revoke_token(self, token: str) -> Token:
        """Revoke a token. Revoking it again changes nothing."""

    def find_token_holder(self, text: str) -> tuple[User, Token] | None:
        """The user and token for this text; None if it is unknown, expired or revoked."""

    def find_holder_by_id(self, token: str) -> tuple[User, Token] | None:
        """The user and token with this id, as they are now; None if it is unknown, expired or revoked."""

    def list_owners(self, workflow: str) -> list[str]:
        """The users that own a workflow; empty if it has no owner."""

    def set_owners(self, workflow: str, owners: Collection[str]) -> None:
        """Make exactly these users the owners of a workflow."""

    def record_audit(self, notes: Sequence[AuditStart | AuditOutcome]) -> list[int]:
        """Write to the audit log; returns the entry number of each note."""

    def expire_audit(self, age: float) -> int:
        """Delete audit entries older than `age` seconds, in batches; returns their number."""

    def list_audit_entries(self, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """Audit entries, the newest first."""
