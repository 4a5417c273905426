"""The worker's side: executes the calls of its server, one at a time, until the connection ends."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any, Never, Protocol

from tidemill.errors import TidemillError
from tidemill.processes.process_tree import ProcessTree, adopt_orphans
from tidemill.workers import messages
from tidemill.workers.process import SCRATCH_PREFIX
from tidemill.workers.process_state import ProcessGuard

ALIVE_SECONDS = 1.0
"""Seconds between two signs of life."""


class Operations(Protocol):
    """What a worker can execute: its methods, by name."""

    def find_failure(self) -> str | None:
        """Why this process cannot execute calls any more, such as a lost engine."""


def serve_calls(descriptor: int, scratch: str, open_operations: Callable[[Any], Operations]) -> Never:
    """Serve the connection `descriptor` until it ends; then everything that this process started ends, too.

    The first thing that comes is the argument of `open_operations`.
    """
    os.set_inheritable(descriptor, False)
    adopt_orphans()
    server = _ServerConnection(Connection(descriptor), scratch)
    try:
        operations = open_operations(server.receive_setup())
    except TidemillError as error:
        server.resign(str(error))
    guard, requests = ProcessGuard(), server.start_receiving()
    while True:
        server.send(messages.WorkerReady())
        while (request := _receive_call(requests)) is None:
            _check_engine(server, operations)
        server.send(_execute_call(operations, request))
        if (defect := guard.restore()) is not None:
            server.resign(defect, is_fault=True)
        _check_engine(server, operations)


def _receive_call(requests: SimpleQueue[messages.CallRequest]) -> messages.CallRequest | None:
    """The next call; None if there is none for a while."""
    try:
        return requests.get(timeout=ALIVE_SECONDS)
    except Empty:
        return None


def _check_engine(server: _ServerConnection, operations: Operations) -> None:
    if (failure := operations.find_failure()) is not None:
        server.resign(failure)


def _execute_call(operations: Operations, request: messages.CallRequest) -> messages.CallResult:
    try:
        return messages.CallResult(getattr(operations, request.operation)(*request.arguments))
    except BaseException as error:  # users' code may raise anything, also SystemExit
        return messages.CallResult(error=messages.ErrorRecord.from_error(error))


class _ServerConnection:
    """The connection to the server. When it ends, this process ends with everything that it started."""

    def __init__(self, connection: Connection, scratch: str) -> None:
        self._connection = connection
        self._scratch = scratch
        self._lock = threading.Lock()
        self._requests: SimpleQueue[messages.CallRequest] = SimpleQueue()
        threading.Thread(target=self._send_signs_of_life, name="tidemill-alive", daemon=True).start()

    def receive_setup(self) -> Any:
        try:
            return pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._end_process()

    def start_receiving(self) -> SimpleQueue[messages.CallRequest]:
        """Receive in the background; returns the queue of calls."""
        threading.Thread(target=self._receive, name="tidemill-requests", daemon=True).start()
        return self._requests

    def send(self, message: messages.Message) -> None:
        try:
            with self._lock:
                messages.send(self._connection, message)
        except OSError:
            self._end_process()

    def resign(self, defect: str, *, is_fault: bool = False) -> Never:
        """Ask to be replaced, and wait for the server to end this process."""
        self.send(messages.WorkerReady(defect, is_fault))
        while True:
            threading.Event().wait(ALIVE_SECONDS)

    def _send_signs_of_life(self) -> None:
        while True:
            threading.Event().wait(ALIVE_SECONDS)
            self.send(messages.WorkerAlive())

    def _receive(self) -> None:
        while True:
            try:
                self._requests.put(messages.receive_trusted(self._connection))
            except (EOFError, OSError):
                self._end_process()

    def _end_process(self) -> Never:
        with suppress(Exception):
            ProcessTree(os.getpid()).kill(spare=os.getpid())
        if os.path.basename(self._scratch).startswith(SCRATCH_PREFIX):  # noqa: PTH119
            shutil.rmtree(self._scratch, ignore_errors=True)
        os._exit(1)
