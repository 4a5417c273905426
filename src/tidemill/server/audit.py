"""What is done on the page goes into the audit as what is asked of the API does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.catalog.access import Accounts, Began, Ended
from tidemill.server.access import Caller
from tidemill.wire.http_status import status_of

_DONE = 200


@contextmanager
def recorded(accounts: Accounts, caller: Caller, action: str) -> Iterator[None]:
    """Written down before it is done: a change without an entry cannot be."""
    (entry,) = accounts.write([Began(caller.name, caller.token, caller.address, f"PAGE {action}")])
    try:
        yield
    except Exception as error:
        accounts.write([Ended(entry, status_of(type(error)))])
        raise
    accounts.write([Ended(entry, _DONE)])
