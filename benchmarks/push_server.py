"""The server of `benchmarks push`: the push interface of `tidemill up`, without Spark."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tidemill.app.wiring import Tidemill
from tidemill.ports.records import Server
from tidemill.runtime.runs.server import ServerIntervals, ServerLoop
from tidemill.server.app import build_access, build_application
from tidemill.server.http_server import HttpListener


def main(directory: str) -> None:
    with Tidemill.open(Path(directory)) as mill:
        mill.apply()
        loop = ServerLoop(
            mill.catalog,
            Server(mill.executor.owner, "up", 1),
            mill.flows.execute,
            (),
            ServerIntervals(leader_lease=2.0),
        )
        signal.signal(signal.SIGTERM, lambda *_: loop.drain())
        access = build_access(mill)
        with HttpListener(build_application(mill, access, loop.wake), access, port=mill.settings.api.port):
            loop.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
