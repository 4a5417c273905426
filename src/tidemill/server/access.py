"""Authentication and authorisation of callers."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from tidemill.model.access import UserRole
from tidemill.ports.accounts import AccountCatalog
from tidemill.server.request_guard import is_loopback
from tidemill.server.throttle import Throttle
from tidemill.wire.refusals import Forbidden, Unidentified

log = logging.getLogger("tidemill.server.access")

LOCAL_CALLER = "local"
"""The name of the caller while access control is off."""

_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller of a request."""

    name: str
    role: UserRole
    address: str
    token: str | None = None  # the token's id


class AccessControl:
    """Identifies callers and checks their roles. While it is off, every caller on this machine is an admin, and no
    others are allowed.
    """

    def __init__(self, accounts: AccountCatalog, *, enabled: bool, throttle: Throttle | None = None) -> None:
        self.accounts = accounts
        self.enabled = enabled
        self._throttle = throttle or Throttle(time.monotonic)

    async def identify_caller(self, address: str, authorization: str | None) -> Caller:
        """The caller at `address` with this Authorization header; raises if it is not allowed."""
        if self.enabled:
            return await run_in_threadpool(self._identify_by_token, address, authorization)
        if not is_loopback(address):
            raise Forbidden("access control is off, so only this machine may call; turn it on to let others in")
        return Caller(LOCAL_CALLER, UserRole.ADMIN, address)

    def check_role(self, caller: Caller, role: UserRole) -> None:
        if not caller.role.covers_role(role):
            raise Forbidden(f"this needs the role {role}, and {caller.name} is {caller.role}; ask an admin")

    def check_workflow_access(self, caller: Caller, workflow: str | None) -> None:
        """Raise unless the caller may change the workflow. Only admins may change objects of unregistered workflows."""
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
        secret = authorization[len(_SCHEME) :].strip() if authorization.lower().startswith(_SCHEME) else ""
        holder = self.accounts.find_token_holder(secret)
        if holder is None:
            self._throttle.record_failure(address)
            log.warning("invalid token from %s", address)
            raise Unidentified("the token is unknown, expired or revoked; ask an admin for another")
        user, token = holder
        return Caller(user.name, user.role, address, token.id)
