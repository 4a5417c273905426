"""Users, tokens, owners and the audit log, in both databases."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select
from tests.catalog.driver import FakeClock
from tests.databases import backend, postgresql_url, server, sqlite_template, url

from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.catalog.tables import tokens
from tidemill.errors import NotFound
from tidemill.model.access import AuditOutcome, AuditStart, UserRole
from tidemill.ports.accounts import AccountCatalog

__all__ = ["backend", "postgresql_url", "server", "sqlite_template", "url"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def catalog(url: str, clock: FakeClock) -> Iterator[SqlCatalog]:
    catalog = open_catalog(url, clock)
    yield catalog
    catalog.close()


@pytest.fixture
def accounts(catalog: SqlCatalog) -> AccountCatalog:
    accounts = catalog.accounts
    accounts.save_user("ann", UserRole.OPERATOR)
    return accounts


def find_holder(accounts: AccountCatalog, text: str) -> str | None:
    result = accounts.find_token_holder(text)
    return None if result is None else result[0].name


def test_a_token_identifies_its_user(accounts: AccountCatalog) -> None:
    issued = accounts.issue_token("ann", label="laptop")
    user, token = accounts.find_token_holder(issued.text) or pytest.fail("unknown")
    assert (user.name, user.role, token) == ("ann", UserRole.OPERATOR, issued.token)
    assert accounts.list_tokens("ann") == [issued.token]
    assert accounts.list_tokens("bob") == []


def test_a_secret_is_not_stored(accounts: AccountCatalog, catalog: SqlCatalog) -> None:
    issued = accounts.issue_token("ann")
    secret = issued.text.rsplit("_", 1)[1]
    row = catalog.database.run_transaction(lambda tx: tx.execute(select(tokens)).one())
    assert secret not in str(tuple(row))
    assert secret not in repr(issued)


def test_a_token_that_is_almost_right_is_rejected(accounts: AccountCatalog) -> None:
    text = accounts.issue_token("ann").text
    other = accounts.issue_token("ann").text
    mixed = f"{text.rsplit('_', 1)[0]}_{other.rsplit('_', 1)[1]}"
    wrong = [
        text[:-1],
        text + "0",
        text.upper(),
        mixed,
        f" {text}",
        text.replace("tdm", "TDM"),
        "",
        "tdm__",
        "\u0661" * 81,
    ]
    assert [find_holder(accounts, w) for w in wrong] == [None] * len(wrong)


def test_a_token_expires_on_time(accounts: AccountCatalog, clock: FakeClock) -> None:
    issued = accounts.issue_token("ann", seconds=60.0)
    clock.now += 59
    assert find_holder(accounts, issued.text) == "ann"
    clock.now += 1
    assert find_holder(accounts, issued.text) is None


def test_a_revoked_token_stays_revoked(accounts: AccountCatalog, clock: FakeClock) -> None:
    issued = accounts.issue_token("ann")
    first = accounts.revoke_token(issued.token.id)
    clock.now += 5
    assert accounts.revoke_token(issued.token.id) == first
    assert find_holder(accounts, issued.text) is None
    with pytest.raises(NotFound, match="no token 'nope'"):
        accounts.revoke_token("nope")


def test_a_removed_user_loses_tokens_and_ownership(accounts: AccountCatalog) -> None:
    issued = accounts.issue_token("ann")
    accounts.set_owners("w", ["ann"])
    accounts.remove_user("ann")
    assert (find_holder(accounts, issued.text), accounts.list_users(), accounts.list_owners("w")) == (None, [], [])
    with pytest.raises(NotFound, match="no user 'ann'"):
        accounts.issue_token("ann")
    accounts.save_user("ann", UserRole.VIEWER)
    assert find_holder(accounts, issued.text) is None
    assert [u.role for u in accounts.list_users()] == [UserRole.VIEWER]


def test_the_holder_of_a_token_is_found_by_its_id_while_it_is_valid(accounts: AccountCatalog) -> None:
    token = accounts.issue_token("ann").token.id
    accounts.save_user("ann", UserRole.VIEWER)
    user, found = accounts.find_holder_by_id(token) or pytest.fail("unknown")
    assert (user.name, user.role, found.id) == ("ann", UserRole.VIEWER, token)
    accounts.revoke_token(token)
    assert accounts.find_holder_by_id(token) is None
    assert accounts.find_holder_by_id("unknown") is None


def test_owners_are_set_all_or_none(accounts: AccountCatalog) -> None:
    accounts.save_user("bob", UserRole.VIEWER)
    accounts.set_owners("w", ["bob", "ann", "bob"])
    assert accounts.list_owners("w") == ["ann", "bob"]
    with pytest.raises(NotFound):
        accounts.set_owners("w", ["ann", "unknown"])
    assert accounts.list_owners("w") == ["ann", "bob"]
    accounts.set_owners("w", [])
    assert accounts.list_owners("w") == []


def test_the_audit_lists_attempted_actions(accounts: AccountCatalog, clock: FakeClock) -> None:
    first, second = accounts.record_audit(
        [
            AuditStart("ann", "t1", "127.0.0.1", "POST /x", UserRole.ADMIN),
            AuditStart("ann", None, "127.0.0.1", "y" * 1000),
        ]
    )
    assert accounts.record_audit([AuditOutcome(first, 200)]) == [first]
    accounts.record_audit([AuditOutcome(first, 500)])  # the first outcome is final
    newest, oldest = accounts.list_audit_entries()
    assert (newest.id, newest.outcome, len(newest.action)) == (second, None, 500)
    assert (oldest.at, oldest.user, oldest.token, oldest.outcome) == (clock.now, "ann", "t1", 200)
    assert (oldest.role, newest.role) == (UserRole.ADMIN, None)
    assert accounts.list_audit_entries(before=second) == [oldest]
    assert accounts.list_audit_entries(limit=1) == [newest]


def test_concurrent_additions_of_the_same_user_all_succeed(accounts: AccountCatalog) -> None:
    with ThreadPoolExecutor(4) as pool:
        users = list(pool.map(lambda _: accounts.save_user("eve", UserRole.ADMIN), range(8)))
    assert {u.name for u in users} == {"eve"}
    assert len(accounts.list_users()) == 2


def test_old_audit_entries_expire(accounts: AccountCatalog, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.catalog.accounts._BATCH_SIZE", 2)
    accounts.record_audit([AuditStart("ann", None, "127.0.0.1", f"POST /{n}") for n in range(5)])
    clock.now += 100
    accounts.record_audit([AuditStart("ann", None, "127.0.0.1", "POST /new")])
    assert accounts.expire_audit(101) == 0
    assert accounts.expire_audit(99) == 5
    assert [e.action for e in accounts.list_audit_entries()] == ["POST /new"]
