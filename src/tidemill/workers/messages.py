"""What a server and its workers say to each other, over a socket that only they have.

A worker executes users' code, so the server trusts nothing that it receives: a value may consist of plain data and of
the value types of this package, which are built without executing anything else.
"""

import copyreg
import dataclasses
import enum
import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from tidemill import errors
from tidemill.errors import TidemillError, WorkerFailed, WorkflowError
from tidemill.model.error_summary import summarize_error

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""The greatest size of an answer in bytes."""

_PLAIN_TYPES = frozenset(
    {
        *(("builtins", name) for name in ("dict", "set", "frozenset", "bytearray", "complex", "range", "slice")),
        *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
        ("decimal", "Decimal"),
        ("uuid", "UUID"),
        ("zoneinfo", "ZoneInfo"),
        ("collections", "OrderedDict"),
        ("collections", "Counter"),
        *(("pytz", name) for name in ("_UTC", "_p")),
    }
)


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A request to execute an operation."""

    operation: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """An error of an operation: its class in `tidemill.errors`, and its arguments."""

    kind: str
    arguments: tuple[Any, ...]
    retry_in: float | None = None

    @classmethod
    def from_error(cls, error: BaseException) -> "ErrorRecord":
        if not isinstance(error, TidemillError):
            return cls("WorkerFailed", (summarize_error(error),))
        kind = next(c for c in type(error).__mro__ if c.__module__ == errors.__name__)
        arguments = (error.problems,) if isinstance(error, WorkflowError) else (str(error),)
        return cls(kind.__name__, arguments, error.retry_in)

    def to_error(self) -> TidemillError:
        kind = getattr(errors, self.kind, None)
        if not (isinstance(kind, type) and issubclass(kind, TidemillError)):
            return WorkerFailed(f"a worker answered with an unknown error {self.kind!r}")
        error = kind(*self.arguments)
        error.retry_in = self.retry_in
        return error


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call."""

    value: Any = None
    error: ErrorRecord | None = None


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """The worker may be called; or it has to be replaced, for the reason `defect`."""

    defect: str | None = None
    is_fault: bool = False  # of users' code


@dataclass(frozen=True, slots=True)
class WorkerAlive:
    """The worker's interpreter still executes its threads; sent every second."""


Message = CallRequest | CallResult | WorkerReady | WorkerAlive


def _reduce_read_only_mapping(mapping: Mapping[Any, Any]) -> tuple[type[dict[Any, Any]], tuple[dict[Any, Any]]]:
    return dict, (dict(mapping),)


copyreg.pickle(MappingProxyType, _reduce_read_only_mapping)  # type: ignore[arg-type]


def send(connection: Connection, message: Message) -> None:
    """Send a message. A result that cannot be sent is replaced by an error, so that the call ends."""
    try:
        content = pickle.dumps(message)
    except Exception as error:  # users' code may have built it
        content = pickle.dumps(CallResult(error=ErrorRecord.from_error(error)))
    connection.send_bytes(content)


def receive_trusted(connection: Connection) -> CallRequest:
    """The next message of the server."""
    request: CallRequest = pickle.loads(connection.recv_bytes())
    return request


def receive_untrusted(connection: Connection) -> CallResult | WorkerReady | WorkerAlive:
    """The next message of a worker; raises `WorkerFailed` if it is not one, `EOFError` at the end."""
    content = connection.recv_bytes(MAX_MESSAGE_BYTES)
    try:
        message = _ValueUnpickler(io.BytesIO(content)).load()
    except _ForbiddenType as error:
        raise WorkerFailed(f"a worker sent a value of {error}, which is no type of an answer") from error
    except Exception as error:  # the bytes are those of users' code
        raise WorkerFailed(f"a worker sent something that is no answer: {type(error).__name__}") from error
    if not isinstance(message, CallResult | WorkerReady | WorkerAlive):
        raise WorkerFailed(f"a worker sent a {type(message).__name__}, which is no answer")
    return message


class _ForbiddenType(Exception):
    """A type that is not built, because its construction may execute something else."""


class _ValueUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN_TYPES:
            return super().find_class(module, name)
        if module.startswith("tidemill.") and "." not in name:
            kind = getattr(import_module(module), name, None)
            if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, enum.Enum)):
                return kind
        if (module, name) == ("builtins", "getattr"):
            return _get_zone_constructor
        raise _ForbiddenType(f"{module}.{name}")


def _get_zone_constructor(owner: type, name: str) -> Any:
    """A time zone is pickled as a call of `getattr(ZoneInfo, "_unpickle")`."""
    if (owner, name) != (ZoneInfo, "_unpickle"):
        raise _ForbiddenType(f"{owner}.{name}")
    return ZoneInfo._unpickle  # type: ignore[attr-defined]
