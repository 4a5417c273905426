"""Mapping between errors and HTTP status codes."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from tidemill import errors
from tidemill.errors import (
    BadInput,
    CatalogError,
    ConfigError,
    Conflict,
    EngineError,
    GarbageCollected,
    InsertInProgress,
    NotFound,
    StorageError,
    TidemillError,
    WorkflowError,
)
from tidemill.wire import refusals
from tidemill.wire.refusals import (
    Forbidden,
    Invalid,
    Misdirected,
    NoSuchMethod,
    TooLarge,
    TooManyFailures,
    Unidentified,
    UnknownFormat,
)

STATUSES: Mapping[type[TidemillError], int] = {
    BadInput: 400,
    Unidentified: 401,
    Forbidden: 403,
    NotFound: 404,
    NoSuchMethod: 405,
    Conflict: 409,
    GarbageCollected: 410,
    TooLarge: 413,
    UnknownFormat: 415,
    Misdirected: 421,
    Invalid: 422,
    ConfigError: 422,
    WorkflowError: 422,
    TooManyFailures: 429,
    TidemillError: 500,
    StorageError: 503,
    CatalogError: 503,
    EngineError: 503,
    InsertInProgress: 503,
}


def find_status(kind: type[BaseException]) -> int:
    """The status of the nearest base class that has one.

    >>> find_status(errors.ChannelBusy), find_status(GarbageCollected), find_status(ValueError)
    (409, 410, 500)
    """
    return next((STATUSES[c] for c in kind.__mro__ if c in STATUSES), 500)


def build_error(kind: str, message: str) -> TidemillError:
    """The error that the server reported.

    >>> build_error("NotFound", "there is no channel 'x'")
    NotFound("there is no channel 'x'")
    """
    error_class = _KINDS.get(kind, TidemillError)
    return WorkflowError([message]) if error_class is WorkflowError else error_class(message)


def _list_errors(module: ModuleType) -> dict[str, type[TidemillError]]:
    return {n: c for n, c in vars(module).items() if isinstance(c, type) and issubclass(c, TidemillError)}


_KINDS = _list_errors(errors) | _list_errors(refusals)
