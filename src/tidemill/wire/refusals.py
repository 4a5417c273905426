"""Errors that occur only in calls over HTTP, and the status codes of all errors."""

from collections.abc import Mapping

from tidemill import errors
from tidemill.errors import BadInput, TidemillError, WorkflowError


class Unidentified(TidemillError):
    """The caller sent no valid token."""

    exit_code = 11


class Forbidden(TidemillError):
    """The caller may not do this."""

    exit_code = 11


class TooManyFailures(TidemillError):
    """Too many invalid tokens came from this address; it must wait."""

    exit_code = 11

    def __init__(self, message: str, wait: int = 60) -> None:
        super().__init__(message)
        self.wait = wait  # seconds


class Misdirected(TidemillError):
    """The request was sent to a host name that is not one of this server."""


class TooLarge(BadInput):
    """The request is larger than the server's limit; nothing was inserted."""


class UnknownFormat(BadInput):
    """The request's format is not supported; nothing was inserted."""


class Invalid(BadInput):
    """The request is invalid: a parameter is missing or has an invalid value."""


class NoSuchMethod(TidemillError):
    """The address does not support this method."""

    def __init__(self, message: str, allowed: str = "") -> None:
        super().__init__(message)
        self.allowed = allowed


class Unreachable(TidemillError):
    """The server does not answer, or the response is not from Tidemill. Only the client raises it."""

    exit_code = 12


STATUSES: Mapping[type[TidemillError], int] = {
    errors.BadInput: 400,
    Unidentified: 401,
    Forbidden: 403,
    errors.NotFound: 404,
    NoSuchMethod: 405,
    errors.Conflict: 409,
    errors.QuotaExceeded: 409,
    errors.GarbageCollected: 410,
    TooLarge: 413,
    UnknownFormat: 415,
    Misdirected: 421,
    Invalid: 422,
    errors.ConfigError: 422,
    WorkflowError: 422,
    TooManyFailures: 429,
    TidemillError: 500,
    errors.StorageError: 503,
    errors.CatalogError: 503,
    errors.EngineError: 503,
    errors.InsertInProgress: 503,
}


def find_status(kind: type[BaseException]) -> int:
    """The status of the nearest base class that has one.

    >>> find_status(errors.ChannelBusy), find_status(errors.QuotaExceeded), find_status(ValueError)
    (409, 409, 500)
    """
    return next((STATUSES[c] for c in kind.__mro__ if c in STATUSES), 500)


def build_error(kind: str, message: str) -> TidemillError:
    """The error that the server reported.

    >>> build_error("NotFound", "there is no channel 'x'")
    NotFound("there is no channel 'x'")
    """
    error_class = _KINDS.get(kind, TidemillError)
    return WorkflowError([message]) if error_class is WorkflowError else error_class(message)


_KINDS: dict[str, type[TidemillError]] = {
    name: kind
    for name, kind in (vars(errors) | globals()).items()
    if isinstance(kind, type) and issubclass(kind, TidemillError)
}
