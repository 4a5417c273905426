"""Users, tokens, owners and the audit, in both catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select
from tests.catalog.driver import FakeClock
from tests.databases import backend, postgresql_url, server, sqlite_template, url

from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.catalog.access import Accounts, Began, Ended
from tidemill.catalog.tables import tokens
from tidemill.errors import NotFound
from tidemill.model.access import Role

__all__ = ["backend", "postgresql_url", "server", "sqlite_template", "url"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def catalog(url: str, clock: FakeClock) -> Iterator[SqlCatalog]:
    opened = open_catalog(url, clock)
    yield opened
    opened.close()


@pytest.fixture
def accounts(catalog: SqlCatalog) -> Accounts:
    found = Accounts(catalog)
    found.keep_user("ann", Role.OPERATOR)
    return found


def holder(accounts: Accounts, text: str) -> str | None:
    found = accounts.holder(text)
    return None if found is None else found[0].name


def test_a_token_is_its_users(accounts: Accounts) -> None:
    issued = accounts.issue("ann", label="laptop")
    user, token = accounts.holder(issued.text) or pytest.fail("unknown")
    assert (user.name, user.role, token) == ("ann", Role.OPERATOR, issued.token)
    assert accounts.tokens("ann") == [issued.token]
    assert accounts.tokens("bob") == []


def test_a_secret_is_kept_nowhere(accounts: Accounts, catalog: SqlCatalog) -> None:
    issued = accounts.issue("ann")
    secret = issued.text.rsplit("_", 1)[1]
    row = catalog.transact(lambda tx: tx.connection.execute(select(tokens)).one())
    assert secret not in str(tuple(row))
    assert secret not in repr(issued)


def test_what_is_close_is_not_it(accounts: Accounts) -> None:
    text = accounts.issue("ann").text
    other = accounts.issue("ann").text
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
    assert [holder(accounts, w) for w in wrong] == [None] * len(wrong)


def test_a_token_ends_when_it_should(accounts: Accounts, clock: FakeClock) -> None:
    issued = accounts.issue("ann", lasts=60.0)
    clock.now += 59
    assert holder(accounts, issued.text) == "ann"
    clock.now += 1
    assert holder(accounts, issued.text) is None


def test_a_revoked_token_stays_revoked(accounts: Accounts, clock: FakeClock) -> None:
    issued = accounts.issue("ann")
    first = accounts.revoke(issued.token.id)
    clock.now += 5
    assert accounts.revoke(issued.token.id) == first
    assert holder(accounts, issued.text) is None
    with pytest.raises(NotFound, match="no token 'nope'"):
        accounts.revoke("nope")


def test_who_is_removed_has_nothing_left(accounts: Accounts) -> None:
    issued = accounts.issue("ann")
    accounts.own("w", ["ann"])
    accounts.remove_user("ann")
    assert (holder(accounts, issued.text), accounts.users(), accounts.owners("w")) == (None, [], [])
    with pytest.raises(NotFound, match="no user 'ann'"):
        accounts.issue("ann")
    accounts.keep_user("ann", Role.VIEWER)
    assert holder(accounts, issued.text) is None
    assert [u.role for u in accounts.users()] == [Role.VIEWER]


def test_owners_are_set_together_or_not_at_all(accounts: Accounts) -> None:
    accounts.keep_user("bob", Role.VIEWER)
    accounts.own("w", ["bob", "ann", "bob"])
    assert accounts.owners("w") == ["ann", "bob"]
    with pytest.raises(NotFound):
        accounts.own("w", ["ann", "nobody"])
    assert accounts.owners("w") == ["ann", "bob"]
    accounts.own("w", [])
    assert accounts.owners("w") == []


def test_the_audit_is_a_list_of_what_was_tried(accounts: Accounts, clock: FakeClock) -> None:
    first, second = accounts.write(
        [Began("ann", "t1", "127.0.0.1", "POST /x"), Began("ann", None, "127.0.0.1", "y" * 1000)]
    )
    assert accounts.write([Ended(first, 200)]) == [first]
    accounts.write([Ended(first, 500)])  # what was said is said
    newest, oldest = accounts.entries()
    assert (newest.id, newest.outcome, len(newest.action)) == (second, None, 500)
    assert (oldest.at, oldest.user, oldest.token, oldest.outcome) == (clock.now, "ann", "t1", 200)
    assert accounts.entries(before=second) == [oldest]
    assert accounts.entries(limit=1) == [newest]


def test_two_who_add_the_same_user_at_once_both_succeed(accounts: Accounts) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: accounts.keep_user("eve", Role.ADMIN), range(8)))
    assert {u.name for u in made} == {"eve"}
    assert len(accounts.users()) == 2


def test_the_audit_forgets_what_is_old(accounts: Accounts, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.catalog.access._AT_ONCE", 2)
    accounts.write([Began("ann", None, "127.0.0.1", f"POST /{n}") for n in range(5)])
    clock.now += 100
    accounts.write([Began("ann", None, "127.0.0.1", "POST /new")])
    assert accounts.forget(101) == 0
    assert accounts.forget(99) == 5
    assert [e.action for e in accounts.entries()] == ["POST /new"]
