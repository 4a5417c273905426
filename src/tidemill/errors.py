"""The exception hierarchy.

Every message says the expected value, the actual value, and what to do next. Each class defines the exit code of the
command line when it is raised, so that scripts can distinguish the cases.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


class TidemillError(Exception):
    """The base class of all errors of Tidemill.

    `retry_in`: the operation was not at fault, and may succeed after so many seconds. None: it was at fault.
    """

    exit_code = 1
    retry_in: float | None = None


class ConfigError(TidemillError):
    """The settings are invalid."""

    exit_code = 2


class InfeasibleSchedule(ConfigError):
    """The jobs need more tracks than there are."""


class WorkflowError(TidemillError):
    """The workflow's declarations are invalid; each problem names the user's file and line."""

    exit_code = 3

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = "" if count == 1 else f"{count} problems in the workflow:\n"
        super().__init__(head + "\n".join(self.problems))


class NotFound(TidemillError):
    """Nothing is registered under this name."""

    exit_code = 4


class BadInput(TidemillError):
    """The data does not fit the channel; nothing was inserted."""

    exit_code = 5


class Conflict(TidemillError):
    """A concurrent change came first; nothing was changed here."""

    exit_code = 6


class IllegalTransition(Conflict):
    """The state transition of an action or dataset is not allowed."""


class ChannelBusy(Conflict):
    """Another run holds an earlier reservation on a channel that this run must read through."""


class DuplicateKey(Conflict):
    """An insert with the same idempotency key exists; nothing was inserted again."""


class InsertInProgress(TidemillError):
    """Another insert with the same key is in progress, and its outcome is not known yet; repeat this one later."""

    exit_code = 6
    retry_in = 1.0


class LeaseLost(Conflict):
    """This process no longer owns the run, so its results were not committed."""


class RunFailed(TidemillError):
    """The run failed and left nothing visible."""

    exit_code = 7


class RunKilled(RunFailed):
    """The run was killed and left nothing visible."""


class TimeLimitExceeded(RunFailed):
    """The run took longer than its time limit and left nothing visible."""


class ResourceLimitExceeded(RunFailed):
    """A program used more memory, CPU time or processes than its limits allow; the run left nothing visible."""


class WorkerFailed(RunFailed):
    """The worker process that executed users' code ended; what it had not committed is not visible."""


class StorageError(TidemillError):
    """The block store cannot be read or written."""

    exit_code = 8
    retry_in: float | None = 5.0


class StoreMismatch(StorageError):
    """The block store belongs to another catalog, or the catalog is older than it; nothing was changed."""

    retry_in = None


class BlockDamaged(StorageError):
    """A block's files are missing or damaged."""

    retry_in = None


class RowsMissing(StorageError):
    """The block store does not hold the rows that were written to it; nothing was published."""


class GarbageCollected(StorageError):
    """The blocks needed for this point in time were garbage-collected."""

    retry_in = None


class EvictionFailed(StorageError):
    """The evictable datasets do not cover the space that is needed; nothing was deleted."""

    retry_in = None


class CatalogError(TidemillError):
    """The catalog is unavailable."""

    exit_code = 9
    retry_in = 0.0


class QuotaExceeded(TidemillError):
    """The workflow uses more than its quota; nothing was inserted or run."""

    exit_code = 13


class EngineError(TidemillError):
    """Spark is unavailable."""

    exit_code = 10
    retry_in = 5.0


class EngineLost(EngineError):
    """Spark's session was lost, with all running jobs; none of their results are visible."""

    def __init__(self, message: str, retry_in: float = 0.0) -> None:
        super().__init__(message)
        self.retry_in = retry_in  # seconds until a new session may be started


@contextmanager
def translate_value_error(build: Callable[[str], TidemillError]) -> Iterator[None]:
    """Raise a `ValueError` of the block as the error that `build` returns for its message."""
    try:
        yield
    except ValueError as error:
        raise build(str(error)) from error


_RENAMED = {
    "CannotFree": "EvictionFailed",
    "Collected": "GarbageCollected",
    "ForeignStore": "StoreMismatch",
    "IllegalMove": "IllegalTransition",
    "Infeasible": "InfeasibleSchedule",
    "InsertUnderWay": "InsertInProgress",
    "KeyUsed": "DuplicateKey",
}


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        raise ImportError(f"tidemill.errors.{name} was renamed to {_RENAMED[name]}")
    raise AttributeError(f"module 'tidemill.errors' has no attribute {name!r}")
