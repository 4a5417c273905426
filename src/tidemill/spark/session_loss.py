"""Noticing that a Spark session is gone, and clearing away what is left of it in this process.

A session is lost if its Java process exited, if its context was stopped (as it is when a cluster gives it up), or if
the server of Spark Connect no longer answers or knows it.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import suppress
from subprocess import Popen
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.udf import UserDefinedFunction
from pyspark.sql.udtf import UserDefinedTableFunction

from tidemill.spark.session import find_context

_GONE = ("INVALID_HANDLE.SESSION_", "NO_ACTIVE_SESSION")
"""What Spark Connect says of a session that its server does not know any longer."""

_UNAVAILABLE = "UNAVAILABLE"
"""The code of gRPC for a server that does not answer."""


class SessionMonitor:
    """Whether a session is still there, with all that are beside it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context = find_context(spark)
        self._process: Popen[bytes] | None = None if self._context is None else _find_java_process(self._context)

    def has_exited(self) -> bool:
        """Did the Java process exit that this process started? It asks nobody but the operating system."""
        return self._process is not None and self._process.poll() is not None

    def is_lost(self, error: BaseException) -> bool:
        """Is the session gone, now that this went wrong?"""
        if self._context is None:
            return any(_is_session_gone(e) for e in _list_causes(error))
        return self.has_exited() or _is_stopped(self._context)

    def discard_session(self) -> None:
        """Let another session be started in this process. What is left of this one cannot be used any longer."""
        if self._context is None:
            with suppress(Exception):
                self._spark.client.close()  # stopping it would wait for the server
            return
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")  # it warns that the process may have crashed
            self._spark.stop()
        SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        if self.has_exited():
            _drop_java_references()


def _find_java_process(context: SparkContext) -> Popen[bytes] | None:
    """None if another program started it."""
    process: Popen[bytes] | None = getattr(context._gateway, "proc", None)
    return process


def _is_stopped(context: SparkContext) -> bool:
    try:
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except Exception:  # nobody answers
        return True


def _drop_java_references() -> None:
    """Let nothing refer to objects of a Java process that is gone: not PySpark, nor functions that it registered."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    with suppress(Exception):
        gateway.shutdown()  # type: ignore[union-attr]
    for found in gc.get_objects():
        if type(found) is UserDefinedFunction:
            found._judf_placeholder = None
        elif type(found) is UserDefinedTableFunction:
            found._judtf_placeholder = None


def _is_session_gone(error: BaseException) -> bool:
    kind, text = type(error).__module__.partition(".")[0], str(error)
    code: Any = getattr(error, "getGrpcStatusCode", getattr(error, "code", None))
    if kind in ("pyspark", "grpc") and callable(code) and getattr(code(), "name", None) == _UNAVAILABLE:
        return True
    condition = error.getCondition() if kind == "pyspark" and hasattr(error, "getCondition") else None
    return kind == "pyspark" and any(sign in (condition or text) for sign in _GONE)


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
