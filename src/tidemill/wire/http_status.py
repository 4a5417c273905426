"""Mapping between errors and HTTP status codes."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from tidemill import errors
from tidemill.errors import TidemillError, WorkflowError
from tidemill.wire import refusals

STATUSES: Mapping[type[TidemillError], int] = {
    errors.BadInput: 400,
    refusals.Unidentified: 401,
    refusals.Forbidden: 403,
    errors.NotFound: 404,
    refusals.NoSuchMethod: 405,
    errors.Conflict: 409,
    errors.GarbageCollected: 410,
    refusals.TooLarge: 413,
    refusals.UnknownFormat: 415,
    refusals.Misdirected: 421,
    refusals.Invalid: 422,
    errors.ConfigError: 422,
    WorkflowError: 422,
    refusals.TooManyFailures: 429,
    TidemillError: 500,
    errors.StorageError: 503,
    errors.CatalogError: 503,
    errors.EngineError: 503,
    errors.InsertInProgress: 503,
}


def find_status(kind: type[BaseException]) -> int:
    """The status of the nearest base class that has one.

    >>> find_status(errors.ChannelBusy), find_status(errors.GarbageCollected), find_status(ValueError)
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
