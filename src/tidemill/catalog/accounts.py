"""Users, tokens, owners of workflows, and the audit log of the API.

A token has the form `tdm_<id>_<secret>`. The secret has 256 random bits, so that storing its SHA-256 is safe: it cannot
be found by brute force. It is shown once, when it is issued.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import asdict

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from tidemill.catalog.database import CatalogPart, in_snapshot, in_transaction, repeat_batches
from tidemill.catalog.rows import AnyRow, build_reader
from tidemill.catalog.tables import audit, tokens, users, workflow_owners
from tidemill.catalog.transaction import Transaction
from tidemill.errors import NotFound
from tidemill.model.access import AuditEntry, AuditOutcome, AuditStart, IssuedToken, Token, User, UserRole

_TOKEN = re.compile(r"tdm_([0-9a-f]{12})_([0-9a-f]{64})", re.ASCII)
_DUMMY_DIGEST = "0" * 64  # compared with the secret of an unknown token, so that the lookup takes the same time
_BATCH_SIZE = 10_000  # entries that are expired in one transaction
_MAX_ACTION_LENGTH = 500  # characters of an action that are stored


_RECORD_OUTCOME = (  # an outcome is recorded once
    update(audit)
    .where(audit.c.id == bindparam("entry"), audit.c.outcome.is_(None))
    .values(outcome=bindparam("new_outcome"))
)


class SqlAccountCatalog(CatalogPart):
    """An `AccountCatalog` over SQL."""

    @in_snapshot
    def list_users(self, connection: Connection) -> list[User]:
        rows = connection.execute(select(users).where(users.c.active).order_by(users.c.name))
        return [_to_user(row) for row in rows]

    @in_transaction
    def save_user(self, tx: Transaction, name: str, role: UserRole) -> User:
        values = {"role": role, "active": True}
        statement = update(users).where(users.c.name == name).values(values).returning(users)
        row = tx.execute(statement).one_or_none()
        if row is None:
            addition = insert(users).values(name=name, created=tx.now, **values).returning(users)
            row = tx.execute(addition).one()
        return _to_user(row)

    @in_transaction
    def remove_user(self, tx: Transaction, name: str) -> None:
        _check_user(tx, name)
        tx.execute(update(users).where(users.c.name == name).values(active=False))
        active_tokens = (tokens.c.user == name, tokens.c.revoked.is_(None))
        tx.execute(update(tokens).where(*active_tokens).values(revoked=tx.now))
        tx.execute(delete(workflow_owners).where(workflow_owners.c.user == name))

    @in_snapshot
    def list_tokens(self, connection: Connection, user: str | None = None) -> list[Token]:
        query = select(tokens).order_by(tokens.c.created, tokens.c.id)
        rows = connection.execute(query if user is None else query.where(tokens.c.user == user))
        return [_to_token(row) for row in rows]

    @in_transaction
    def issue_token(self, tx: Transaction, user: str, *, label: str = "", seconds: float | None = None) -> IssuedToken:
        _check_user(tx, user)
        secret = secrets.token_hex(32)
        token = Token(secrets.token_hex(6), user, label, tx.now, None if seconds is None else tx.now + seconds)
        values = {"id": token.id, "user": user, "label": label, "created": token.created, "expires": token.expires}
        tx.execute(insert(tokens).values(digest=_hash_secret(secret), **values))
        return IssuedToken(token, f"tdm_{token.id}_{secret}")

    @in_transaction
    def revoke_token(self, tx: Transaction, token: str) -> Token:
        usable = (tokens.c.id == token, tokens.c.revoked.is_(None))
        tx.execute(update(tokens).where(*usable).values(revoked=tx.now))
        row = tx.execute(select(tokens).where(tokens.c.id == token)).one_or_none()
        if row is None:
            raise NotFound(f"there is no token {token!r}; list the tokens to find their ids")
        return _to_token(row)

    def find_token_holder(self, text: str) -> tuple[User, Token] | None:
        parsed = _TOKEN.fullmatch(text)
        return None if parsed is None else self._find_holder(parsed[1], parsed[2])

    @in_snapshot
    def find_holder_by_id(self, connection: Connection, token: str) -> tuple[User, Token] | None:
        row = _read_token(connection, token)
        return None if row is None else self._select_usable(connection, row)

    @in_snapshot
    def _find_holder(self, connection: Connection, token: str, secret: str) -> tuple[User, Token] | None:
        row = _read_token(connection, token)
        matches = hmac.compare_digest(_hash_secret(secret), _DUMMY_DIGEST if row is None else row.digest)
        return self._select_usable(connection, row) if row is not None and matches else None

    def _select_usable(self, connection: Connection, row: AnyRow) -> tuple[User, Token] | None:
        token = _to_token(row)
        is_usable = token.is_usable(self.database.read_time_with(connection))
        return (User(row.user, row.role, row.known), token) if is_usable else None

    @in_snapshot
    def list_owners(self, connection: Connection, workflow: str) -> list[str]:
        query = select(workflow_owners.c.user).where(workflow_owners.c.workflow == workflow)
        return list(connection.execute(query.order_by(workflow_owners.c.user)).scalars())

    @in_transaction
    def set_owners(self, tx: Transaction, workflow: str, owners: Collection[str]) -> None:
        names = sorted(set(owners))
        for name in names:
            _check_user(tx, name)
        tx.execute(delete(workflow_owners).where(workflow_owners.c.workflow == workflow))
        for name in names:
            tx.execute(insert(workflow_owners).values(workflow=workflow, user=name))

    @in_transaction
    def record_audit(self, tx: Transaction, notes: Sequence[AuditStart | AuditOutcome]) -> list[int]:
        starts = [note for note in notes if isinstance(note, AuditStart)]
        outcomes = [note for note in notes if isinstance(note, AuditOutcome)]
        start_rows = [{"at": tx.now, **asdict(s), "action": s.action[:_MAX_ACTION_LENGTH]} for s in starts]
        outcome_rows = [{"entry": o.entry, "new_outcome": o.outcome} for o in outcomes]
        statement = insert(audit).returning(audit.c.id, sort_by_parameter_order=True)
        new_ids = iter(tx.execute(statement, start_rows).scalars().all() if start_rows else ())
        if outcome_rows:
            tx.execute(_RECORD_OUTCOME, outcome_rows)
        return [note.entry if isinstance(note, AuditOutcome) else next(new_ids) for note in notes]

    def expire_audit(self, age: float) -> int:
        return repeat_batches(lambda: self._expire_audit_batch(age), lambda batch: batch == _BATCH_SIZE)

    @in_transaction
    def _expire_audit_batch(self, tx: Transaction, age: float) -> int:
        """Delete one batch: locks are held briefly, and only the oldest entries are scanned."""
        oldest = select(audit.c.id).order_by(audit.c.id).limit(_BATCH_SIZE)
        return tx.execute(delete(audit).where(audit.c.id.in_(oldest), audit.c.at < tx.now - age)).rowcount

    @in_snapshot
    def list_audit_entries(
        self, connection: Connection, *, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        query = select(audit).order_by(audit.c.id.desc()).limit(limit)
        rows = connection.execute(query if before is None else query.where(audit.c.id < before))
        return [_to_audit_entry(row) for row in rows]


def _read_token(connection: Connection, token: str) -> AnyRow | None:
    """A token of an active user, with the user's role."""
    joined = select(tokens, users.c.role, users.c.created.label("known")).join_from(tokens, users)
    return connection.execute(joined.where(tokens.c.id == token, users.c.active)).one_or_none()


def _check_user(tx: Transaction, name: str) -> None:
    query = select(users.c.name).where(users.c.name == name, users.c.active)
    if tx.execute(query.with_for_update()).one_or_none() is None:
        raise NotFound(f"there is no user {name!r}; add them first")


_to_user = build_reader(User)
_to_token = build_reader(Token)
_to_audit_entry = build_reader(AuditEntry)


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
