"""A Spark cluster on loopback. It takes minutes, so only `make test-cluster` runs these tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

HERE = Path(__file__).parent
SPARK = Path(pyspark.__file__).parent
SMALL = {"spark.driver.memory": "512m", "spark.executor.memory": "512m"}


@pytest.fixture(autouse=True)
def _skip_unless_requested() -> None:
    if "TIDEMILL_CLUSTER" not in os.environ:
        pytest.skip("make test-cluster runs it")


def drive(directory: Path, spark: dict[str, Any], *, is_probed: bool = True) -> dict[str, Any]:
    """Run the driver on a project; returns the result of each step."""
    command = [sys.executable, HERE / "driver.py", directory, json.dumps(spark), "probe" if is_probed else "no-probe"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert finished.returncode == 0, finished.stderr[-3000:]
    results: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return results


@dataclass(frozen=True)
class Cluster:
    """A standalone master on loopback."""

    url: str
    logs: Path

    @contextmanager
    def worker(self, name: str, hidden: Path | None = None) -> Iterator[None]:
        """A worker with two cores; the `hidden` directory, if given, appears empty to it."""
        options = ["--host", "127.0.0.1", "--cores", "2", "--memory", "1g", "--webui-port", "0"]
        command = [str(SPARK / "bin" / "spark-class"), "org.apache.spark.deploy.worker.Worker", *options]
        command += ["--work-dir", str(self.logs / name), self.url]
        if hidden is not None:
            mount_and_run = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", mount_and_run, str(hidden), *command]
        with _process(command, self.logs / f"{name}.log", "Successfully registered with master"):
            yield


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    logs = tmp_path_factory.mktemp("cluster")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    command = [str(SPARK / "bin" / "spark-class"), "org.apache.spark.deploy.master.Master", *options]
    with _process(command, logs / "master.log", "I have been elected leader"):
        yield Cluster(f"spark://127.0.0.1:{port}", logs)


@contextmanager
def _process(command: Sequence[str], log: Path, ready: str) -> Iterator[None]:
    """A process group that is stopped at the end; it is ready once its log contains `ready`."""
    environment = {**os.environ, "SPARK_HOME": str(SPARK), "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
        try:
            deadline = time.monotonic() + 120
            while ready not in log.read_text():
                assert process.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(0.2)
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)
