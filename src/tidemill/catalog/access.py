"""Users, tokens, owners of workflows, and the audit: what the API needs to know of those who call it.

A token reads `tdm_<id>_<secret>`. The secret is 256 random bits, so that its SHA-256 is all that need be kept: nobody
can find it by trying. It is shown once, when it is issued.
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
_NOBODYS = "0" * 64  # what the secret of an unknown token is compared with, so that looking it up takes as long
_AT_ONCE = 10_000  # entries that are forgotten in one transaction
_LONGEST = 500  # characters of an action that are kept


_OUTCOME = (  # what was said is said
    update(audit).where(audit.c.id == bindparam("entry"), audit.c.outcome.is_(None)).values(outcome=bindparam("said"))
)


@dataclass(frozen=True, slots=True)
class AuditStart:
    """Somebody is about to change something. This is written first: a change without an entry cannot be."""

    user: str
    token: str | None
    address: str
    action: str


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """What came of it."""

    entry: int
    outcome: int


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token and the text that its holder sends; the text is kept nowhere."""

    token: Token
    text: str

    def __repr__(self) -> str:
        return f"Issued({self.token!r})"


class AccountCatalog:
    """Those who may call the API, and what they did."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self._catalog = catalog

    def list_users(self) -> list[User]:
        with self._catalog._open_connection() as connection:
            rows = connection.execute(select(users).where(users.c.active).order_by(users.c.name))
            return [_to_user(row) for row in rows]

    def save_user(self, name: str, role: UserRole) -> User:
        """Add a user, change their role, or take them back; tokens revoked when they were removed stay so."""
        return self._catalog.run_transaction(lambda tx: _save_user(tx, name, role))

    def remove_user(self, name: str) -> None:
        """Revoke a user's tokens and take their workflows from them."""
        self._catalog.run_transaction(lambda tx: _remove_user(tx, name))

    def list_tokens(self, user: str | None = None) -> list[Token]:
        query = select(tokens).order_by(tokens.c.created, tokens.c.id)
        with self._catalog._open_connection() as connection:
            rows = connection.execute(query if user is None else query.where(tokens.c.user == user))
            return [_to_token(row) for row in rows]

    def issue_token(self, user: str, *, label: str = "", lasts: float | None = None) -> IssuedToken:
        """A new token, for `lasts` seconds or until it is revoked."""
        return self._catalog.run_transaction(lambda tx: _issue_token(tx, user, label, lasts))

    def revoke_token(self, token: str) -> Token:
        """From now on the token is refused. Revoking it again changes nothing."""
        return self._catalog.run_transaction(lambda tx: _revoke_token(tx, token))

    def find_token_holder(self, text: str) -> tuple[User, Token] | None:
        """Whose token this is; None if it is nobody's, or can no longer be used."""
        parsed = _TOKEN.fullmatch(text)
        if parsed is None:
            return None
        theirs = select(tokens, users.c.role, users.c.created.label("known")).join_from(tokens, users)
        query = theirs.where(tokens.c.id == parsed[1], users.c.active)
        with self._catalog._open_connection() as connection:
            found = connection.execute(query).one_or_none()
            now = self._catalog._read_time(connection)
        same = hmac.compare_digest(_hash_secret(parsed[2]), _NOBODYS if found is None else found.digest)
        if found is None or not same or not _to_token(found).is_usable(now):
            return None
        return User(found.user, UserRole(found.role), found.known), _to_token(found)

    def list_owners(self, workflow: str) -> list[str]:
        """The users whose workflow it is; none: it is nobody's."""
        mine = workflow_owners.c.workflow == workflow
        with self._catalog._open_connection() as connection:
            found = select(workflow_owners.c.user).where(mine).order_by(workflow_owners.c.user)
            return list(connection.execute(found).scalars())

    def set_owners(self, workflow: str, owners: Iterable[str]) -> None:
        """Make a workflow these users', and nobody else's."""
        wanted = sorted(set(owners))
        self._catalog.run_transaction(lambda tx: _set_owners(tx, workflow, wanted))

    def record_audit(self, notes: Sequence[AuditStart | AuditOutcome]) -> list[int]:
        """Write into the audit; returns the number of the entry that each is about."""
        return self._catalog.run_transaction(lambda tx: _record_audit(tx, notes))

    def expire_audit(self, age: float) -> int:
        """Forget what was written into the audit more than `age` seconds ago; returns how many entries it was."""
        forgotten = some = self._catalog.run_transaction(lambda tx: _expire_audit(tx, age))
        while some == _AT_ONCE:
            some = self._catalog.run_transaction(lambda tx: _expire_audit(tx, age))
            forgotten += some
        return forgotten

    def list_audit_entries(self, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """The newest first."""
        query = select(audit).order_by(audit.c.id.desc()).limit(limit)
        with self._catalog._open_connection() as connection:
            rows = connection.execute(query if before is None else query.where(audit.c.id < before))
            return [AuditEntry(r.id, r.at, r.user, r.token, r.address, r.action, r.outcome) for r in rows]


def _save_user(tx: Transaction, name: str, role: UserRole) -> User:
    values = {"role": role, "active": True}
    changed = update(users).where(users.c.name == name).values(values).returning(users)
    row = tx.connection.execute(changed).one_or_none()
    if row is None:
        new = insert(users).values(name=name, created=tx.now, **values).returning(users)
        row = tx.connection.execute(new).one()
    return _to_user(row)


def _remove_user(tx: Transaction, name: str) -> None:
    _check_user(tx, name)
    tx.connection.execute(update(users).where(users.c.name == name).values(active=False))
    theirs = (tokens.c.user == name, tokens.c.revoked.is_(None))
    tx.connection.execute(update(tokens).where(*theirs).values(revoked=tx.now))
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
    found = tx.connection.execute(select(tokens).where(tokens.c.id == token)).one_or_none()
    if found is None:
        raise NotFound(f"there is no token {token!r}; the list of tokens has their numbers")
    return _to_token(found)


def _set_owners(tx: Transaction, workflow: str, owners: list[str]) -> None:
    for name in owners:
        _check_user(tx, name)
    tx.connection.execute(delete(workflow_owners).where(workflow_owners.c.workflow == workflow))
    for name in owners:
        tx.connection.execute(insert(workflow_owners).values(workflow=workflow, user=name))


def _record_audit(tx: Transaction, notes: Sequence[AuditStart | AuditOutcome]) -> list[int]:
    began = [{"at": tx.now, **asdict(n), "action": n.action[:_LONGEST]} for n in notes if isinstance(n, AuditStart)]
    ended = [{"entry": n.entry, "said": n.outcome} for n in notes if isinstance(n, AuditOutcome)]
    adding = insert(audit).returning(audit.c.id, sort_by_parameter_order=True)
    new = iter(tx.connection.execute(adding, began).scalars().all() if began else ())
    if ended:
        tx.connection.execute(_OUTCOME, ended)
    return [n.entry if isinstance(n, AuditOutcome) else next(new) for n in notes]


def _expire_audit(tx: Transaction, age: float) -> int:
    """Some of them: nobody has to wait long, and only the oldest entries are looked at."""
    oldest = select(audit.c.id).order_by(audit.c.id).limit(_AT_ONCE)
    return tx.connection.execute(delete(audit).where(audit.c.id.in_(oldest), audit.c.at < tx.now - age)).rowcount


def _check_user(tx: Transaction, name: str) -> None:
    found = select(users.c.name).where(users.c.name == name, users.c.active)
    if tx.connection.execute(found.with_for_update()).one_or_none() is None:
        raise NotFound(f"there is no user {name!r}; add them first")


def _to_user(row: AnyRow) -> User:
    return User(row.name, UserRole(row.role), row.created, row.active)


def _to_token(row: AnyRow) -> Token:
    return Token(row.id, row.user, row.label, row.created, row.expires, row.revoked)


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
