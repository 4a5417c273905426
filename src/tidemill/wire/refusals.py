"""Errors that only a call over HTTP can meet."""

from __future__ import annotations

from tidemill.errors import BadInput, TidemillError


class Unidentified(TidemillError):
    """The caller showed no token that can be used."""

    exit_code = 11


class Forbidden(TidemillError):
    """The caller may not do this."""

    exit_code = 11


class TooManyFailures(TidemillError):
    """Too many tokens from this address were wrong; it has to wait."""

    exit_code = 11

    def __init__(self, message: str, wait: int = 60) -> None:
        super().__init__(message)
        self.wait = wait  # seconds


class Misdirected(TidemillError):
    """The request was made to a name that is not this server's."""


class TooLarge(BadInput):
    """More was sent than the server takes; nothing was inserted."""


class UnknownFormat(BadInput):
    """What was sent is in no format that the server reads; nothing was inserted."""


class Invalid(BadInput):
    """The request is not one that the API knows: a parameter is missing, or has no value it may have."""


class NoSuchMethod(TidemillError):
    """The address is there, but not for this method."""

    def __init__(self, message: str, allowed: str = "") -> None:
        super().__init__(message)
        self.allowed = allowed


class Unreachable(TidemillError):
    """The server does not answer, or what answers is no Tidemill. Only the client meets this."""

    exit_code = 12
