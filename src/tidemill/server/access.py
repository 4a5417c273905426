"""Who calls, and may they?"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from tidemill.catalog.access import AccountCatalog
from tidemill.model.access import UserRole
from tidemill.server.request_guard import is_loopback
from tidemill.server.throttle import Throttle
from tidemill.wire.refusals import Forbidden, Unidentified

log = logging.getLogger("tidemill.server.access")

LOCAL = "local"
"""The name of whoever calls while access control is off."""

_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """Who made a request."""

    name: str
    role: UserRole
    address: str
    token: str | None = None  # its number


class AccessControl:
    """Decides. While it is off, everyone on this machine is an admin, and nobody else is let in."""

    def __init__(self, accounts: AccountCatalog, *, enabled: bool, throttle: Throttle | None = None) -> None:
        self.accounts = accounts
        self.enabled = enabled
        self._throttle = throttle or Throttle(time.monotonic)

    async def identify_caller(self, address: str, authorization: str | None) -> Caller:
        """Who calls from `address` with this header."""
        if self.enabled:
            return await run_in_threadpool(self._identify_by_token, address, authorization)
        if not is_loopback(address):
            raise Forbidden("access control is off, so only this machine may call; turn it on to let others in")
        return Caller(LOCAL, UserRole.ADMIN, address)

    def check_role(self, caller: Caller, role: UserRole) -> None:
        if not caller.role.covers_role(role):
            raise Forbidden(f"this needs the role {role}, and {caller.name} is {caller.role}; ask an admin")

    def check_workflow_access(self, caller: Caller, workflow: str | None) -> None:
        """May the caller change things in a workflow? What belongs to none that is registered is the admins' alone."""
        if caller.role is UserRole.ADMIN:
            return
        if workflow is None:
            raise Forbidden("this belongs to no workflow that is registered now; ask an admin")
        owners = self.accounts.list_owners(workflow)
        if owners and caller.name not in owners:
            raise Forbidden(f"workflow {workflow!r} belongs to {', '.join(owners)}; ask them, or an admin")

    def _identify_by_token(self, address: str, authorization: str | None) -> Caller:
        if authorization is None:
            raise Unidentified("show who you are with the header 'Authorization: Bearer tdm_…'; an admin issues tokens")
        self._throttle.check_address(address)
        sent = authorization[len(_SCHEME) :].strip() if authorization.lower().startswith(_SCHEME) else ""
        found = self.accounts.find_token_holder(sent)
        if found is None:
            self._throttle.record_failure(address)
            log.warning("a token that cannot be used came from %s", address)
            raise Unidentified("the token is unknown, expired or revoked; ask an admin for another")
        user, token = found
        return Caller(user.name, user.role, address, token.id)
