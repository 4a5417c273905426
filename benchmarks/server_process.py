"""`tidemill up` in a separate process, as users start it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.app.settings import SETTINGS_FILE

HOST = "127.0.0.1"
_PATIENCE = 180.0  # seconds for the server to start and stop
_POLL_INTERVAL = 0.02


def write_project(directory: Path, workflow: str, settings: str = "") -> int:
    """Write the files of a project whose server listens on a free port; returns the port."""
    port = find_free_port()
    (directory / SETTINGS_FILE).write_text(f"{settings}\n[api]\nport = {port}\n")
    (directory / "workflow.py").write_text(workflow)
    return port


@contextmanager
def run_server_process(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server on a project, and stop it at the end of the context."""
    with (directory / "up.log").open("wb") as log:
        process = subprocess.Popen(build_command(directory, "up"), stdout=log, stderr=log, env={**os.environ})
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_PATIENCE)


def build_command(directory: Path, *arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("tidemill")), "--project", str(directory), *arguments]


def wait_for_port(directory: Path, process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the server answers requests."""
    _wait(directory, process, lambda: _is_answering(port))


def wait_for_tracks(directory: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server executes runs."""
    _wait(directory, process, lambda: b" serves " in (directory / "up.log").read_bytes())


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _wait(directory: Path, process: subprocess.Popen[bytes], is_ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start: {(directory / 'up.log').read_text()[-2000:]}")
        time.sleep(_POLL_INTERVAL)


def _is_answering(port: int) -> bool:
    """Whether the API answers; the health check also answers while Spark is not available yet."""
    try:
        with socket.create_connection((HOST, port), timeout=_PATIENCE) as connection:
            connection.sendall(
                f"GET /api/v1/healthz HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n\r\n".encode()
            )
            return connection.recv(8) == b"HTTP/1.1"
    except OSError:
        return False
