"""Errors that occur only in calls over HTTP."""

from __future__ import annotations

from tidemill.errors import BadInput, TidemillError


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
