"""Users, tokens, owners of workflows, and the audit log of the API.

A token has the form `tdm_<id>_<secret>`. The secret has 256 random bits, so that storing its SHA-256 is safe: it cannot
be found by brute force. It is shown once, when it is issued.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import bindparam, delete, insert, select, update

from tidemill.catalog.rows import AnyRow
from tidemill.catalog.tables import audit, tokens, users, workflow_owners
from tidemill.catalog.transaction import Transaction
from tidemill.catalog.writer import SqlCatalog
from tidemill.errors import NotFound
from tidemill.model.access import AuditEntry, Token, User, UserRole

_TOKEN = re.compile(r"tdm_([0-9a-f]{12})_([0-9a-f]{64})", re.ASCII)
_DUMMY_DIGEST = "0" * 64  # compared with the secret of an unknown token, so that the lookup takes the same time
_BATCH_SIZE = 10_000  # entries that are expired in one transaction
_MAX_ACTION_LENGTH = 500  # characters of an action that are stored


_RECORD_OUTCOME = (  # an outcome is recorded once
    update(audit)
    .where(audit.c.id == bindparam("entry"), audit.c.outcome.is_(None))
    .values(outcome=bindparam("new_outcome"))
)


@dataclass(frozen=True, slots=True)
class AuditStart:
    """A user is about to change something. It is recorded before the change, so that no change lacks an entry."""

    user: str
    token: str | None
    address: str
    action: str


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """The HTTP status that ended an audited change."""

    entry: int
    outcome: int


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token and the text that its holder sends; the text is not stored."""

    token: Token
    text: str

    def __repr__(self) -> str:
        return f"IssuedToken({self.token!r})"


class AccountCatalog:
    """The users of the API, their tokens, and the audit log."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self._catalog = catalog

    def list_users(self) -> list[User]:
        with self._catalog._open_connection() as connection:
            rows = connection.execute(select(users).where(users.c.active).order_by(users.c.name))
            return [_to_user(row) for row in rows]

    def save_user(self, name: str, role: UserRole) -> User:
        """Add a user, change their role, or restore them; tokens revoked by a removal stay revoked."""
        return self._catalog.run_transaction(lambda tx: _save_user(tx, name, role))

    def remove_user(self, name: str) -> None:
        """Deactivate a user, revoke their tokens and remove their ownership of workflows."""
        self._catalog.run_transaction(lambda tx: _remove_user(tx, name))

    def list_tokens(self, user: str | None = None) -> list[Token]:
        query = select(tokens).order_by(tokens.c.created, tokens.c.id)
        with self._catalog._open_connection() as connection:
            rows = connection.execute(query if user is None else query.where(tokens.c.user == user))
            return [_to_token(row) for row in rows]

    def issue_token(self, user: str, *, label: str = "", seconds: float | None = None) -> IssuedToken:
        """A new token, valid for `seconds` seconds or until it is revoked."""
        return self._catalog.run_transaction(lambda tx: _issue_token(tx, user, label, seconds))

    def revoke_token(self, token: str) -> Token:
        """Revoke a token. Revoking it again changes nothing."""
        return self._catalog.run_transaction(lambda tx: _revoke_token(tx, token))

    def find_token_holder(self, text: str) -> tuple[User, Token] | None:
        """The user and token for this text; None if it is unknown, expired or revoked."""
        parsed = _TOKEN.fullmatch(text)
        if parsed is None:
            return None
        joined = select(tokens, users.c.role, users.c.created.label("known")).join_from(tokens, users)
        query = joined.where(tokens.c.id == parsed[1], users.c.active)
        with self._catalog._open_connection() as connection:
            row = connection.execute(query).one_or_none()
            now = self._catalog._read_time(connection)
        matches = hmac.compare_digest(_hash_secret(parsed[2]), _DUMMY_DIGEST if row is None else row.digest)
        if row is None or not matches or not _to_token(row).is_usable(now):
            return None
        return User(row.user, UserRole(row.role), row.known), _to_token(row)

    def list_owners(self, workflow: str) -> list[str]:
        """The users that own a workflow; empty if it has no owner."""
        of_workflow = workflow_owners.c.workflow == workflow
        with self._catalog._open_connection() as connection:
            query = select(workflow_owners.c.user).where(of_workflow).order_by(workflow_owners.c.user)
            return list(connection.execute(query).scalars())

    def set_owners(self, workflow: str, owners: Iterable[str]) -> None:
        """Make exactly these users the owners of a workflow."""
        names = sorted(set(owners))
        self._catalog.run_transaction(lambda tx: _set_owners(tx, workflow, names))

    def record_audit(self, notes: Sequence[AuditStart | AuditOutcome]) -> list[int]:
        """Write to the audit log; returns the entry number of each note."""
        return self._catalog.run_transaction(lambda tx: _record_audit(tx, notes))

    def expire_audit(self, age: float) -> int:
        """Delete audit entries older than `age` seconds, in batches; returns their number."""
        expired = batch = self._catalog.run_transaction(lambda tx: _expire_audit(tx, age))
        while batch == _BATCH_SIZE:
            batch = self._catalog.run_transaction(lambda tx: _expire_audit(tx, age))
            expired += batch
        return expired

    def list_audit_entries(self, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """Audit entries, the newest first."""
        query = select(audit).order_by(audit.c.id.desc()).limit(limit)
        with self._catalog._open_connection() as connection:
            rows = connection.execute(query if before is None else query.where(audit.c.id < before))
            return [AuditEntry(r.id, r.at, r.user, r.token, r.address, r.action, r.outcome) for r in rows]


def _save_user(tx: Transaction, name: str, role: UserRole) -> User:
    values = {"role": role, "active": True}
    statement = update(users).where(users.c.name == name).values(values).returning(users)
    row = tx.connection.execute(statement).one_or_none()
    if row is None:
        addition = insert(users).values(name=name, created=tx.now, **values).returning(users)
        row = tx.connection.execute(addition).one()
    return _to_user(row)


def _remove_user(tx: Transaction, name: str) -> None:
    _check_user(tx, name)
    tx.connection.execute(update(users).where(users.c.name == name).values(active=False))
    active_tokens = (tokens.c.user == name, tokens.c.revoked.is_(None))
    tx.connection.execute(update(tokens).where(*active_tokens).values(revoked=tx.now))
    tx.connection.execute(delete(workflow_owners).where(workflow_owners.c.user == name))


def _issue_token(tx: Transaction, user: str, label: str, lasts: float | None) -> IssuedToken:
    _check_user(tx, user)
    secret = secrets.token_hex(32)
    token = Token(secrets.token_hex(6), user, label, tx.now, None if lasts is None else tx.now + lasts)
    values = {"id": token.id, "user": user, "label": label, "created": token.created, "expires": token.expires}
    tx.connection.execute(insert(tokens).values(digest=_hash_secret(secret), **values))
    return IssuedToken(token, f"tdm_{token.id}_{secret}")


def _revoke_token(tx: Transaction, token: str) -> Token:
    usable = (tokens.c.id == token, tokens.c.revoked.is_(None))
    tx.connection.execute(update(tokens).where(*usable).values(revoked=tx.now))
    row = tx.connection.execute(select(tokens).where(tokens.c.id == token)).one_or_none()
    if row is None:
        raise NotFound(f"there is no token {token!r}; list the tokens to find their ids")
    return _to_token(row)


def _set_owners(tx: Transaction, workflow: str, owners: list[str]) -> None:
    for name in owners:
        _check_user(tx, name)
    tx.connection.execute(delete(workflow_owners).where(workflow_owners.c.workflow == workflow))
    for name in owners:
        tx.connection.execute(insert(workflow_owners).values(workflow=workflow, user=name))


def _record_audit(tx: Transaction, notes: Sequence[AuditStart | AuditOutcome]) -> list[int]:
    start_rows = [
        {"at": tx.now, **asdict(note), "action": note.action[:_MAX_ACTION_LENGTH]}
        for note in notes
        if isinstance(note, AuditStart)
    ]
    outcome_rows = [
        {"entry": note.entry, "new_outcome": note.outcome} for note in notes if isinstance(note, AuditOutcome)
    ]
    statement = insert(audit).returning(audit.c.id, sort_by_parameter_order=True)
    new_ids = iter(tx.connection.execute(statement, start_rows).scalars().all() if start_rows else ())
    if outcome_rows:
        tx.connection.execute(_RECORD_OUTCOME, outcome_rows)
    return [note.entry if isinstance(note, AuditOutcome) else next(new_ids) for note in notes]


def _expire_audit(tx: Transaction, age: float) -> int:
    """Delete one batch: locks are held briefly, and only the oldest entries are scanned."""
    oldest = select(audit.c.id).order_by(audit.c.id).limit(_BATCH_SIZE)
    return tx.connection.execute(delete(audit).where(audit.c.id.in_(oldest), audit.c.at < tx.now - age)).rowcount


def _check_user(tx: Transaction, name: str) -> None:
    query = select(users.c.name).where(users.c.name == name, users.c.active)
    if tx.connection.execute(query.with_for_update()).one_or_none() is None:
        raise NotFound(f"there is no user {name!r}; add them first")


def _to_user(row: AnyRow) -> User:
    return User(row.name, UserRole(row.role), row.created, row.active)


def _to_token(row: AnyRow) -> Token:
    return Token(row.id, row.user, row.label, row.created, row.expires, row.revoked)


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
