"""Runs a server of the page as a separate process: `python -m tests.ui.site PROJECT [ENGINE [all|page|work]]`.

It executes runs and shows the page, or does one of both. It prints its port, then serves until its standard input ends.
Requests with the header `x-viewer: guest` may only read, as may all requests while the project has a file named
`locked`; an `operator` may act in workflows only. While it has a file named `revoked`, no open page has a valid viewer.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import uvicorn
from benchmarks.empty_engine import Inputs, Outputs, Schemas
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from tests.acceptance.plain import PlainEngine
from tests.algebra.evaluate import evaluate_operator

import tidemill.app.lazy_imports
from tidemill.algebra.operators import ScanMode
from tidemill.algebra.program import DeclaredQuery, name_input
from tidemill.app.serving import build_server_loop
from tidemill.app.wiring import Tidemill
from tidemill.display import columns
from tidemill.model.change import Rows
from tidemill.model.schema import Field, Schema
from tidemill.model.task import Refresh, Task
from tidemill.model.view import View
from tidemill.ports.engine import Log
from tidemill.ui.context import Viewer
from tidemill.ui.page import mount_pages
from tidemill.wire.refusals import Forbidden, Unidentified

KINDS = {int: "BIGINT", float: "DOUBLE"}
LOCK, REVOKED = "locked", "revoked"
GRACE_SECONDS = 3.0
"""Seconds after which a table is late in these tests, instead of half a minute."""


def _refuse(_workflow: str | None) -> None:
    raise Forbidden("You may not do that; ask the administrator of this server")


def _refuse_outside(workflow: str | None) -> None:
    if workflow is None:
        raise Forbidden("this belongs to no workflow that is registered now; ask an admin")


ADMIN = Viewer("", can_act_somewhere=True, check_permission=lambda _: None, record_action=lambda _: nullcontext())
GUEST = replace(ADMIN, name="guest", can_act_somewhere=False, check_permission=_refuse)
VIEWERS = {"guest": GUEST, "operator": replace(ADMIN, name="operator", check_permission=_refuse_outside)}


class ReferenceEngine(PlainEngine):
    """The engine without Spark, which also computes declared tables: in batch, by the reference evaluator."""

    def __init__(self, _session: Callable[[], Any], locate: Callable[[str], str], _limits: object) -> None:
        super().__init__(locate)

    def execute_task(self, task: Task, inputs: Inputs, outputs: Outputs, log: Log) -> Schemas:
        log.write(f"<b>{task.name}</b> begins\n")
        code = task.variant.code
        if not isinstance(code, Refresh):
            return super().execute_task(task, inputs, outputs, log)
        rows = self._evaluate_batch(code.query, inputs)
        targets = {n: replace(t, schema=t.schema or _infer_schema(rows[n])) for n, t in outputs.items()}
        return {name: self.write_frame(rows[name], target) for name, target in targets.items()}

    def _evaluate_batch(self, query: DeclaredQuery, inputs: Mapping[str, View]) -> dict[str, Rows]:
        sources = {
            (c, mode): self.read_frame(inputs[name_input(c, ScanMode.NEW)]) for c in query.channels for mode in ScanMode
        }
        program, steps = query.build_batch(), dict[str, Rows]()
        for name, op in program.steps.items():
            steps[name] = evaluate_operator(op, sources, steps)
        return {
            channel: evaluate_operator(op, sources, steps) for channel, op in program.outputs.items() if op is not None
        }


def _infer_schema(rows: Rows) -> Schema:
    """The schema of computed rows, inferred from the first one."""
    return Schema(tuple(Field(name, KINDS.get(type(value), "STRING")) for name, value in rows[0].items()))


def main(project: str, engine: str = "plain", part: str = "all") -> None:
    if engine == "plain":
        vars(tidemill.app.lazy_imports)["SparkEngine"] = ReferenceEngine
    vars(columns)["GRACE_SECONDS"] = GRACE_SECONDS
    with Tidemill.open(project) as mill, ExitStack() as stack:
        if part != "page":
            stack.enter_context(_run_loop(mill))
        if part == "work":
            print("works", flush=True)
            sys.stdin.read()
        else:
            _serve_page(mill)


@contextmanager
def _run_loop(mill: Tidemill) -> Iterator[None]:
    loop = build_server_loop(mill, "up")
    thread = threading.Thread(target=loop.run)
    thread.start()
    yield
    loop.drain()
    thread.join()


def _serve_page(mill: Tidemill) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(build_site(mill), log_level="warning"))
        threading.Thread(target=_stop_at_end_of_input, args=(server,), daemon=True).start()
        print(listener.getsockname()[1], flush=True)
        server.run(sockets=[listener])


def build_site(mill: Tidemill) -> FastAPI:
    app = FastAPI()

    @app.get("/logout")
    def log_out() -> PlainTextResponse:
        return PlainTextResponse("logged out")

    def find_viewer(request: Request) -> Viewer:
        if (mill.directory / REVOKED).exists():
            raise Unidentified("the token is unknown, expired or revoked; ask an admin for another")
        locked = (mill.directory / LOCK).exists()
        return GUEST if locked else VIEWERS.get(request.headers.get("x-viewer", ""), ADMIN)

    mount_pages(app, mill, find_viewer, api_prefix="/api/", logout_path="/logout")
    return app


def _stop_at_end_of_input(server: uvicorn.Server) -> None:
    sys.stdin.read()
    server.should_exit = True


if __name__ == "__main__":
    main(*sys.argv[1:])
