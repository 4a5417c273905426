"""The audit log of changes that are not requests to the API: those of the page and of commands."""

from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.model.access import AuditOutcome, AuditStart
from tidemill.ports.accounts import AccountCatalog
from tidemill.wire.refusals import find_status

_OK = 200


@contextmanager
def audit_change(accounts: AccountCatalog, start: AuditStart) -> Iterator[None]:
    """Record a change before it is made, so that none is without an entry; and its outcome as an HTTP status."""
    (entry,) = accounts.record_audit([start])
    try:
        yield
    except Exception as error:
        accounts.record_audit([AuditOutcome(entry, find_status(type(error)))])
        raise
    accounts.record_audit([AuditOutcome(entry, _OK)])
