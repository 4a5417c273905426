"""A Spark Connect server in a separate process, from the installed PySpark."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from benchmarks.server_process import HOST, find_free_port

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_STARTED = b"Spark Connect server started"
_PATIENCE = 120.0  # seconds for the server to start


@dataclass(frozen=True)
class ConnectServer:
    process: subprocess.Popen[bytes]
    address: str  # for clients


@contextmanager
def run_connect_server(directory: Path) -> Iterator[ConnectServer]:
    """Start a server with the machine's cores, and stop it at the end of the context."""
    port = find_free_port()
    settings = {"spark.connect.grpc.binding.address": HOST, "spark.connect.grpc.binding.port": port}
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "connect.log"
    with log.open("wb") as output:
        command = [submit, "--master", "local[*]", "--class", _CLASS, *options, "spark-internal"]
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=directory)
    try:
        deadline = time.monotonic() + _PATIENCE
        while _STARTED not in log.read_bytes():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the Spark Connect server did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield ConnectServer(process, f"sc://{HOST}:{port}")
    finally:
        process.terminate()
        process.wait(_PATIENCE)
