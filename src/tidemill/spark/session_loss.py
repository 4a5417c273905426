"""Detection of a lost Spark session, and removal of its remains from this process.

A session is lost if its Java process exited, if its context was stopped (as a cluster does when it removes an
application), or if the Spark Connect server does not respond or no longer has the session.

A task cannot stop its session, which all runs share: `stop` fails in the thread that executes the task. A session that
a task stops in another way is lost.
"""

import gc
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from subprocess import Popen
from types import FrameType
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.udf import UserDefinedFunction
from pyspark.sql.udtf import UserDefinedTableFunction

from tidemill.errors import RunFailed
from tidemill.model.location import SourceLocation
from tidemill.model.source_code import is_project
from tidemill.spark.session import find_context

_SESSION_ERRORS = ("INVALID_HANDLE.SESSION_", "NO_ACTIVE_SESSION")
"""Error conditions of Spark Connect for a session that its server no longer has."""

_UNAVAILABLE = "UNAVAILABLE"
"""The gRPC status of a server that does not respond."""


_thread = threading.local()
"""`is_task`: whether the current thread executes a task."""


@contextmanager
def forbid_stop() -> Iterator[None]:
    """Inside the context, stopping a guarded session fails, in this thread."""
    before = getattr(_thread, "is_task", False)
    _thread.is_task = True
    try:
        yield
    finally:
        _thread.is_task = before


def guard_session(spark: SparkSession) -> None:
    """Make stopping the session fail in threads that execute a task. Of a classic session, that is its context."""
    owner: Any = find_context(spark) or spark
    if not isinstance(vars(owner).get("stop"), _GuardedStop):
        vars(owner)["stop"] = _GuardedStop(owner.stop)


@dataclass(frozen=True, slots=True)
class _GuardedStop:
    """The `stop` of a session, or of its context, for all threads but those that execute a task."""

    stop: Callable[[], None]

    def __call__(self) -> None:
        if getattr(_thread, "is_task", False):
            place = _find_user_frame()
            where = "" if place is None else f" at {place}"
            raise RunFailed(f"the task stopped the Spark session{where}, which all runs share; remove that call")
        self.stop()


def _find_user_frame() -> SourceLocation | None:
    """The innermost frame of the user's project on this thread's stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_project(frame.f_code.co_filename):
            return SourceLocation(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


class SessionMonitor:
    """Detects whether a session and its siblings are still usable."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context = find_context(spark)
        guard_session(spark)
        # None if another program started Java
        self._process: Popen[bytes] | None = getattr(self._context and self._context._gateway, "proc", None)

    def has_exited(self) -> bool:
        """Whether the Java process that this process started has exited. It only asks the operating system."""
        return self._process is not None and self._process.poll() is not None

    def is_lost(self, error: BaseException) -> bool:
        if self._context is None:
            return any(_is_session_gone(e) for e in _list_causes(error))
        return self.has_exited() or _is_stopped(self._context)

    def discard_session(self) -> None:
        """Make it possible to start another session in this process. This session is unusable afterwards."""
        if self._context is None:
            with suppress(Exception):
                self._spark.client.close()  # stopping it would wait for the server
            return
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")  # PySpark warns that the process may have crashed
            self._spark.stop()
        SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        if self.has_exited():
            _drop_java_references()


def _is_stopped(context: SparkContext) -> bool:
    try:
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except Exception:  # the Java process does not respond
        return True


def _drop_java_references() -> None:
    """Remove all references to objects of an exited Java process, from PySpark and from registered functions."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    with suppress(Exception):
        gateway.shutdown()  # type: ignore[union-attr]
    for obj in gc.get_objects():
        if type(obj) is UserDefinedFunction:
            obj._judf_placeholder = None
        elif type(obj) is UserDefinedTableFunction:
            obj._judtf_placeholder = None


def _is_session_gone(error: BaseException) -> bool:
    kind, text = type(error).__module__.partition(".")[0], str(error)
    code: Any = getattr(error, "getGrpcStatusCode", getattr(error, "code", None))
    if kind in ("pyspark", "grpc") and callable(code) and getattr(code(), "name", None) == _UNAVAILABLE:
        return True
    condition = error.getCondition() if kind == "pyspark" and hasattr(error, "getCondition") else None
    return kind == "pyspark" and any(sign in (condition or text) for sign in _SESSION_ERRORS)


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__
