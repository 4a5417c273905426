"""Annotations of declarations: a task's arguments and results."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tidemill.errors import WorkflowError, translate_value_error
from tidemill.model.block import BlockKind
from tidemill.model.task import ReadMode

REFRESH = ("auto", "batch", "incremental", "incremental_strict")

STATE = "state"
"""Name of the first argument of a keyed task."""

F = TypeVar("F", bound=Callable[..., Any])
Key = str | Sequence[str]
Duration = str | float
Lag = Duration | Mapping[str, Duration]


if TYPE_CHECKING:
    # Arguments and results of a task are DataFrames, of any kind of session.
    All: TypeAlias = Any
    New: TypeAlias = Any
    Old: TypeAlias = Any
    Base: TypeAlias = Any
    Delta: TypeAlias = Any
else:

    class All:
        """Annotation of a task's argument: the full content of the channel."""

        mode = ReadMode.ALL

    class New:
        """Annotation of a task's argument: the change since the task's last successful run."""

        mode = ReadMode.NEW

    class Old:
        """Annotation of a task's argument: the full content as of the task's last successful run."""

        mode = ReadMode.OLD

    class Base:
        """Annotation of a task's result: it replaces the full content of the channel."""

        kind = BlockKind.BASE

    class Delta:
        """Annotation of a task's result: it changes the content of the channel, as its updates define."""

        kind = BlockKind.DELTA


def locate_value_error(subject: object) -> AbstractContextManager[None]:
    """Raise a `ValueError` of the block as a problem of `subject`: the user's source location, or a part of it."""
    return translate_value_error(lambda reason: WorkflowError([f"{subject}: {reason}"]))


Reading = Any
"""One of `All`, `New` and `Old`."""

Writing = Any
"""One of `Base` and `Delta`."""
