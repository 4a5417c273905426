"""The one exception tree.

Every message says what was expected, what was found, and what to do next. Each class names the exit
code with which the command line ends when it is raised, so that scripts can tell the cases apart.
"""

from __future__ import annotations

from collections.abc import Sequence


class TidemillError(Exception):
    """Something went wrong in Tidemill."""

    exit_code = 1


class ConfigError(TidemillError):
    """The settings cannot be used."""

    exit_code = 2


class Infeasible(ConfigError):
    """The jobs need more tracks than there are."""


class WorkflowError(TidemillError):
    """The workflow's declarations cannot be used; each problem names the user's file and line."""

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
    """Somebody else changed this first; nothing was changed here."""

    exit_code = 6


class IllegalMove(Conflict):
    """No action or dataset may go from the one state to the other."""


class ChannelBusy(Conflict):
    """Another run holds an earlier slot of a channel that this run must read through."""


class LeaseLost(Conflict):
    """This process no longer owns the run, so its results were not committed."""


class RunFailed(TidemillError):
    """The run failed and left nothing visible."""

    exit_code = 7


class RunKilled(RunFailed):
    """The run was killed and left nothing visible."""


class TimeLimitExceeded(RunFailed):
    """The run took longer than its time limit and left nothing visible."""


class StorageError(TidemillError):
    """The block store cannot be read or written."""

    exit_code = 8


class BlockDamaged(StorageError):
    """A block's files are missing or damaged."""


class Collected(StorageError):
    """The blocks needed for this point in time were garbage-collected."""


class CannotFree(StorageError):
    """What may be evicted does not cover the space that is needed; nothing was deleted."""


class CatalogError(TidemillError):
    """The catalog cannot be used."""

    exit_code = 9


class EngineError(TidemillError):
    """Spark cannot be used."""

    exit_code = 10
