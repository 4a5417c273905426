"""The audit log of changes that are not requests to the API: those of the page and of commands."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.errors import TidemillError
from tidemill.model.access import AuditOutcome, AuditStart
from tidemill.ports.accounts import AccountCatalog
from tidemill.wire.refusals import find_status

log = logging.getLogger("tidemill.server.access")

_OK = 200


@contextmanager
def audit_change(accounts: AccountCatalog, start: AuditStart) -> Iterator[None]:
    """Record a change before it is made, so that none is without an entry; and its outcome as an HTTP status."""
    (entry,) = accounts.record_audit([start])
    try:
        yield
    except Exception as error:
        _record_outcome(accounts, AuditOutcome(entry, find_status(type(error))))
        raise
    _record_outcome(accounts, AuditOutcome(entry, _OK))


def _record_outcome(accounts: AccountCatalog, outcome: AuditOutcome) -> None:
    try:
        accounts.record_audit([outcome])
    except TidemillError as error:  # the change was made, or has failed: the entry stays without an outcome
        log.error("the outcome %d of audit entry %d could not be written: %s", outcome.outcome, outcome.entry, error)
