"""What users' code may change in its process besides its results: put back after each call, or reported.

Put back: working directory, environment, time zone, locale, file mode mask, and signal handlers. A worker with replaced
functions, or with programs or threads that users' code left behind, has to be replaced.
"""

from __future__ import annotations

import locale
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import FunctionType, ModuleType

from tidemill.model.source_code import is_project
from tidemill.processes.process_tree import read_process_table
from tidemill.runtime.runs.supervision import WORK_THREAD

GUARDED_PACKAGES = ("pyspark", "py4j", "tidemill")
"""Packages whose functions every run relies on."""


class ProcessGuard:
    """Restores this process to its state at construction, and finds what cannot be restored.

    Only the main thread may use it, since only that may set signal handlers.
    """

    def __init__(self) -> None:
        self._directory = os.getcwd()  # noqa: PTH109  # compared as text
        self._environment = dict(os.environ)
        self._locale = locale.setlocale(locale.LC_ALL)
        self._mask = os.umask(0o077)
        self._handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        self._functions: list[_GuardedFunction] = []
        self._modules: set[str] = set()
        self._guard_new_modules()
        self._programs = frozenset(_list_programs())
        os.umask(self._mask)

    def restore(self) -> str | None:
        """Restore the process; returns why it should execute nothing else, None if it may."""
        os.chdir(self._directory)
        self._restore_environment()
        os.umask(self._mask)
        for number, handler in self._handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                with suppress(OSError):  # those of SIGKILL and SIGSTOP cannot be set
                    signal.signal(number, handler)
        return self._find_thread() or self._find_program() or self._find_replaced_function()

    def _restore_environment(self) -> None:
        for name in os.environ.keys() - self._environment.keys():
            del os.environ[name]
        os.environ.update({k: v for k, v in self._environment.items() if os.environ.get(k) != v})
        time.tzset()
        if locale.setlocale(locale.LC_ALL) != self._locale:
            locale.setlocale(locale.LC_ALL, self._locale)

    def _find_thread(self) -> str | None:
        """An abandoned task, or a thread that executes a function of the project."""
        for thread in threading.enumerate():
            code = getattr(getattr(thread, "_target", None) or type(thread).run, "__code__", None)
            is_users = code is not None and is_project(code.co_filename) and thread is not threading.main_thread()
            if thread.name == WORK_THREAD or is_users:
                return f"a thread of users' code did not end ({thread.name})"
        return None

    def _find_program(self) -> str | None:
        started = set(_list_programs()) - self._programs
        return f"{len(started)} programs that users' code started did not end" if started else None

    def _find_replaced_function(self) -> str | None:
        replaced = next((f for f in self._functions if not f.is_in_place()), None)
        if replaced is not None:
            return f"users' code replaced {replaced.name}"
        self._guard_new_modules()
        return None

    def _guard_new_modules(self) -> None:
        """Functions of modules that were loaded since are compared from the next call on."""
        for name in sys.modules.keys() - self._modules:
            module = sys.modules[name]
            if name.partition(".")[0] in GUARDED_PACKAGES and isinstance(module, ModuleType):
                self._functions += _list_functions(name, module)
            self._modules.add(name)


def _list_programs() -> Iterable[int]:
    """The children of this process."""
    return (p.pid for p in read_process_table().values() if p.parent == os.getpid() and not p.has_ended)


class _GuardedFunction:
    """A function, method or class, and where it must be found. Thousands are compared after each call."""

    __slots__ = ("_code", "_key", "_namespace", "_value", "owner")

    def __init__(self, owner: str, namespace: Mapping[str, object], key: str, value: object) -> None:
        self.owner, self._namespace, self._key, self._value = owner, namespace, key, value
        self._code = getattr(_unwrap_method(value), "__code__", value)

    @property
    def name(self) -> str:
        return f"{self.owner}.{self._key}"

    def is_in_place(self) -> bool:
        """PySpark wraps some functions anew, so equal code counts; it can be replaced without the function."""
        value = self._namespace.get(self._key, self._value)
        return getattr(_unwrap_method(value), "__code__", value) is self._code


def _list_functions(owner: str, module: ModuleType) -> Iterable[_GuardedFunction]:
    """The functions and classes of a module, and the methods of its classes."""
    for name, value in list(vars(module).items()):
        if isinstance(value, FunctionType):
            yield _GuardedFunction(owner, vars(module), name, value)
        elif isinstance(value, type) and value.__module__ == owner:
            yield _GuardedFunction(owner, vars(module), name, value)
            for key, member in list(vars(value).items()):
                if isinstance(_unwrap_method(member), FunctionType):
                    yield _GuardedFunction(f"{owner}.{name}", vars(value), key, member)


def _unwrap_method(value: object) -> object:
    """The function of a class method or static method."""
    return getattr(value, "__func__", value)
