"""Authentication and authorisation of callers."""

import ipaddress
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

from starlette.concurrency import run_in_threadpool

from tidemill.model.access import Token, User, UserRole
from tidemill.model.network import is_loopback
from tidemill.ports.accounts import AccountCatalog
from tidemill.ports.catalog import Clock
from tidemill.wire.refusals import Forbidden, TooManyFailures, Unidentified

_REMEMBERED = 10_000  # addresses at most, so that guessing from ever new addresses does not fill the memory
_NETWORK = 64  # bits of an IPv6 address that one customer shares


class Throttle:
    """Counts failures by address, and says when there were `max_failures` within `window` seconds."""

    def __init__(self, clock: Clock, *, max_failures: int = 10, window: float = 60.0) -> None:
        self._clock = clock
        self._max_failures = max_failures
        self._window = window
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def check_address(self, address: str) -> None:
        """Raise if the address has to wait."""
        with self._lock:
            recent = self._list_recent(_to_network(address))
            if len(recent) < self._max_failures:
                return
            delay = max(1, ceil(recent[-self._max_failures] + self._window - self._clock()))
        raise TooManyFailures(f"too many wrong tokens came from your address; try again in {delay} s", delay)

    def record_failure(self, address: str) -> None:
        with self._lock:
            network = _to_network(address)
            recent = self._list_recent(network)
            recent.append(self._clock())
            self._failures[network] = recent
            self._failures.move_to_end(network)
            while len(self._failures) > _REMEMBERED:
                self._failures.popitem(last=False)

    def _list_recent(self, network: str) -> deque[float]:
        recent = self._failures.get(network) or deque(maxlen=self._max_failures)
        while recent and recent[0] <= self._clock() - self._window:
            recent.popleft()
        return recent


def _to_network(address: str) -> str:
    """
    >>> _to_network("192.0.2.7"), _to_network("2001:db8:0:1:2:3:4:5"), _to_network("2001:db8:0:1::9")
    ('192.0.2.7', '2001:db8:0:1::', '2001:db8:0:1::')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, _NETWORK), strict=False).network_address)
    return str(parsed)


log = logging.getLogger("tidemill.server.access")

LOCAL_CALLER = "local"
"""The name of the caller while access control is off."""

_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    role: UserRole
    address: str
    token: str | None = None  # the token's id


class AccessControl:
    """Identifies callers and checks their roles. While it is off, only this machine may call, as an admin.

    `admits_all`: while it is off, other machines may call, too.
    """

    def __init__(
        self, accounts: AccountCatalog, *, enabled: bool, admits_all: bool = False, throttle: Throttle | None = None
    ) -> None:
        self.accounts = accounts
        self.enabled = enabled
        self.admits_all = admits_all
        self._throttle = throttle or Throttle(time.monotonic)

    async def identify_caller(self, address: str, authorization: str | None) -> Caller:
        """The caller at `address` with this Authorization header; raises if it is not allowed."""
        if self.enabled:
            return await run_in_threadpool(self._identify_by_token, address, authorization)
        if not self.admits_all and not is_loopback(address):
            raise Forbidden("access control is off, so only this machine may call; turn it on to let others in")
        return Caller(LOCAL_CALLER, UserRole.ADMIN, address)

    def identify_again(self, caller: Caller) -> Caller:
        """The caller with its present role; raises if its token is no longer valid. It reads the catalog."""
        if caller.token is None:
            return caller
        holder = self.accounts.find_holder_by_id(caller.token)
        if holder is None:
            raise Unidentified(_INVALID_TOKEN)
        return _build_caller(holder, caller.address)

    def check_role(self, caller: Caller, role: UserRole) -> None:
        if not caller.role.covers_role(role):
            raise Forbidden(f"this needs the role {role}, and {caller.name} is {caller.role}; ask an admin")

    def can_operate(self, caller: Caller, find_workflow: Callable[[], str | None]) -> bool:
        """Whether the caller may act on an object; `find_workflow` is called only if its workflow matters."""
        try:
            self.check_role(caller, UserRole.OPERATOR)
            self.check_workflow_access(caller, None if caller.role is UserRole.ADMIN else find_workflow())
        except Forbidden:
            return False
        return True

    def check_workflow_access(self, caller: Caller, workflow: str | None) -> None:
        """Raise unless the caller may change the workflow. Only admins may change objects of unregistered workflows."""
        if caller.role is UserRole.ADMIN:
            return
        if workflow is None:
            raise Forbidden("this belongs to no workflow that is registered now; ask an admin")
        owners = self.accounts.list_owners(workflow)
        if owners and caller.name not in owners:
            raise Forbidden(f"workflow {workflow!r} belongs to {', '.join(owners)}; ask them, or an admin")

    async def check_again(self, caller: Caller) -> None:
        """Raise unless the caller still has the role that it had when it was identified."""
        if caller.token is not None and (await run_in_threadpool(self.identify_again, caller)).role is not caller.role:
            raise Forbidden(f"the role of {caller.name} was changed; connect again")

    def _identify_by_token(self, address: str, authorization: str | None) -> Caller:
        """A valid token is always accepted: wrong ones of others at the same address do not keep its holder out."""
        if authorization is None:
            raise Unidentified("show who you are with the header 'Authorization: Bearer tdm_…'; an admin issues tokens")
        secret = authorization[len(_SCHEME) :].strip() if authorization.lower().startswith(_SCHEME) else ""
        holder = self.accounts.find_token_holder(secret)
        if holder is None:
            self._throttle.check_address(address)
            self._throttle.record_failure(address)
            log.warning("invalid token from %s", address)
            raise Unidentified(_INVALID_TOKEN)
        return _build_caller(holder, address)


@dataclass
class StreamAccess:
    """The right to keep a connection open: it is checked again every `interval` seconds, when something is passed."""

    access: AccessControl
    caller: Caller
    interval: float
    _checked: float = field(default_factory=time.monotonic)

    async def check(self) -> None:
        """Raise if the caller's token is no longer valid, or its role was changed."""
        if time.monotonic() - self._checked >= self.interval:
            await self.access.check_again(self.caller)
            self._checked = time.monotonic()


_INVALID_TOKEN = "the token is unknown, expired or revoked; ask an admin for another"


def _build_caller(holder: tuple[User, Token], address: str) -> Caller:
    user, token = holder
    return Caller(user.name, user.role, address, token.id)
